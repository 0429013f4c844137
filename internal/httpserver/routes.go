package httpserver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
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

// refuse answers in the shape of the client's API. Paths are suggestions.
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

// firstPage is the pattern of "/" alone.
const firstPage = "GET /{$}"

// routes registers the doors and the front's own handlers.
func (s *Server) routes() {
	handlers := map[string]http.Handler{
		firstPage: withWriteDeadline(s.page), "GET /healthz": http.HandlerFunc(s.healthz), "GET /readyz": http.HandlerFunc(s.readyz), "GET /metrics": withWriteDeadline(http.HandlerFunc(s.metricsPage)),
	}
	maps.Copy(handlers, s.opts.Doors)
	s.mux = http.NewServeMux()
	for pattern, handler := range s.opts.Open {
		s.mux.Handle(pattern, withWriteDeadline(handler))
	}
	for pattern, handler := range handlers {
		s.mux.Handle(pattern, handler)
		s.paths = append(s.paths, strings.ReplaceAll(pattern, "{$}", ""))
	}
	slices.SortFunc(s.paths, func(a, b string) int { return strings.Compare(pathOf(a), pathOf(b)) })
}

// withWriteDeadline is for handlers that write in one go and set no deadline
// themselves. Streams set one for each write.
func withWriteDeadline(h http.Handler) http.Handler {
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

// unknownPath answers a request that no pattern matches.
func (s *Server) unknownPath(w http.ResponseWriter, r *http.Request) {
	allowed := s.methods(r)
	if len(allowed) == 0 {
		refuse(w, r, notFound, fmt.Sprintf("There is no %s here. There are: %s.", text.Clip(r.URL.Path, 128), strings.Join(s.paths, ", ")), s.paths...)
		return
	}
	allow := strings.Join(append(allowed, http.MethodOptions), ", ")
	w.Header().Set("Allow", allow)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	refuse(w, r, wrongMethod, fmt.Sprintf("%s cannot be used on %s; use %s.", text.Clip(r.Method, 32), text.Clip(r.URL.Path, 128), allow), s.paths...)
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

// The states of Copilot in Health.
const (
	CopilotOK          = "ok"
	CopilotUnavailable = "unavailable"
	CopilotDemo        = "demo"    // the demo model answers in its place
	CopilotLimited     = "limited" // some models answer, others do not
	// With an editor's models it is not known before one was asked.
	CopilotConsent = "consent_required"
	CopilotUnknown = "unknown"
)

// Health is what /healthz and /readyz say.
type Health struct {
	OK    bool // the process itself is well
	Ready bool // requests would be answered now
	// The rest is only for those who may use the doors.
	Copilot string // one of the states above
	// Reason is why Copilot or the bridge is not ready, Details say more.
	Reason  string
	Details map[string]any
}

// freshness bounds the age of a health and the time to find it.
const freshness = 2 * time.Second

// prober caches the health for a short time.
type prober struct {
	check func(context.Context) Health
	stale atomic.Bool // a request may have changed it

	mu   sync.Mutex
	last Health
	at   time.Time
}

func (p *prober) health(ctx context.Context) Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stale.Swap(false) && !p.at.IsZero() && time.Since(p.at) < freshness {
		return p.last
	}
	// Others wait for the answer too, so it must not end with this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freshness)
	defer cancel()
	p.last = p.check(ctx)
	p.at = time.Now()
	return p.last
}

// healthz answers 200 while the process is well, also without Copilot, so that
// supervisors do not restart it.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	h := s.health.health(r.Context())
	body := map[string]any{}
	if admitted(r.Context()) {
		maps.Copy(body, h.Details)
		if h.Reason != "" {
			body["reason"] = h.Reason
		}
		body["copilot"] = h.Copilot
	}
	body["ok"] = h.OK
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	writeFresh(w, status, body)
}

// readyz answers 200 when requests would be answered.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	h := s.health.health(r.Context())
	if s.draining.Err() != nil {
		h.Ready, h.Reason = false, stopping().Message
	}
	body := map[string]any{"ready": h.Ready}
	if h.Ready {
		writeFresh(w, http.StatusOK, body)
		return
	}
	if h.Reason != "" && admitted(r.Context()) {
		body["reason"] = h.Reason
	}
	w.Header().Set("Retry-After", "1")
	writeFresh(w, http.StatusServiceUnavailable, body)
}

func writeFresh(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	wire.JSON(w, status, body)
}
