package front

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// refusal is an answer that no door has given, in the words of both APIs.
type refusal struct {
	status        int
	openaiType    string
	openaiCode    string
	anthropicType string
}

var (
	unauthorized = refusal{http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "authentication_error"}
	forbidden    = refusal{http.StatusForbidden, "invalid_request_error", "forbidden", "permission_error"}
	notFound     = refusal{http.StatusNotFound, "invalid_request_error", "unknown_url", "not_found_error"}
	wrongMethod  = refusal{http.StatusMethodNotAllowed, "invalid_request_error", "method_not_allowed", "invalid_request_error"}
	internal     = refusal{http.StatusInternalServerError, "server_error", "internal_error", "api_error"}
)

// refuse answers in the shape that the SDK at the other end turns into its
// own typed error. Paths, if any, are what the client might have meant.
func refuse(w http.ResponseWriter, r *http.Request, why refusal, message string, paths ...string) {
	type detail struct {
		Type    string  `json:"type"`
		Message string  `json:"message"`
		Param   *string `json:"param,omitempty"`
		Code    string  `json:"code,omitempty"`
	}
	var body struct {
		Type      string   `json:"type,omitempty"`
		Error     detail   `json:"error"`
		RequestID string   `json:"request_id,omitempty"`
		Paths     []string `json:"paths,omitempty"`
	}
	body.Error = detail{Type: why.openaiType, Message: message, Code: why.openaiCode}
	body.Paths = paths
	if strings.HasPrefix(r.URL.Path, "/v1/messages") {
		body.Type = "error"
		body.Error = detail{Type: why.anthropicType, Message: message}
		body.RequestID = w.Header().Get(requestIDHeader)
	}
	wire.JSON(w, why.status, body)
}

// routes registers the doors and the front's own handlers.
func (s *Server) routes() {
	home := s.opts.Home
	if home == nil {
		home = prompt(s.page)
	}
	handlers := maps.Clone(s.opts.Doors)
	if handlers == nil {
		handlers = map[string]http.Handler{}
	}
	handlers["GET /{$}"] = home
	handlers["GET /healthz"] = http.HandlerFunc(s.healthz)
	handlers["GET /readyz"] = http.HandlerFunc(s.readyz)
	handlers["GET /metrics"] = prompt(s.metrics.handler())
	s.mux = http.NewServeMux()
	for pattern, handler := range handlers {
		s.mux.Handle(pattern, handler)
		s.paths = append(s.paths, strings.ReplaceAll(pattern, "{$}", ""))
	}
	slices.SortFunc(s.paths, func(a, b string) int { return strings.Compare(pathOf(a), pathOf(b)) })
}

// prompt is for handlers that write in one go and set no deadline themselves.
func prompt(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		h.ServeHTTP(w, r)
	})
}

// pathOf is a pattern without its method.
func pathOf(pattern string) string {
	if _, path, ok := strings.Cut(pattern, " "); ok {
		return strings.TrimSpace(path)
	}
	return pattern
}

// nowhere answers a request that no pattern matches.
func (s *Server) nowhere(w http.ResponseWriter, r *http.Request) {
	allowed := s.methods(r)
	if len(allowed) == 0 {
		refuse(w, r, notFound, fmt.Sprintf("There is no %s here. There are: %s.", clip(r.URL.Path, 128), strings.Join(s.paths, ", ")), s.paths...)
		return
	}
	allow := strings.Join(append(allowed, http.MethodOptions), ", ")
	w.Header().Set("Allow", allow)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	refuse(w, r, wrongMethod, fmt.Sprintf("%s cannot be used on %s; use %s.", clip(r.Method, 32), clip(r.URL.Path, 128), allow), s.paths...)
}

// methods lists those that the path of r can be asked with.
func (s *Server) methods(r *http.Request) []string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		try := r.Clone(r.Context())
		try.Method = method
		if _, pattern := s.mux.Handler(try); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
