// Package githubtest is a stand-in for GitHub on loopback, so that tests can run
// the path of users with an account: the login with a code, the account and its
// quota, the list of models, the three kinds of model endpoints, and GitHub's MCP
// server. The demo model says what its models say. What the runtime sends is recorded. It is for
// tests alone and is not part of the program.
package githubtest

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// Call is one request that the stand-in received.
type Call struct {
	Method string
	Path   string
	Header http.Header
	Body   []byte
	At     time.Time
	Status int // of the answer; 0 if there was none yet when the client left
	// Dropped says that the connection was closed instead of an answer.
	Dropped bool
}

// Answer replaces the usual answer to one request.
type Answer struct {
	Delay  time.Duration // before the answer
	Status int           // 0: the usual answer, after the delay
	Header http.Header
	Body   string
	Cut    bool // the connection ends without an answer
}

// Server is the stand-in. Its methods may be called from any goroutine.
type Server struct {
	// Model plays the replies of all models; see its Push and Handle.
	Model *demomodel.Server

	http     *httptest.Server
	certFile string
	issuer   *issuer

	mu      sync.Mutex
	token   string
	valid   int // how many more requests the token is good for; negative: all
	account Account
	device  Device
	models  []Model
	cert    *tls.Certificate
	calls   []*Call
	came    chan struct{}       // closed with the next request
	credits float64             // AI credits for one request to a model
	queued  map[string][]Answer // by path
	always  map[string]Answer
}

// Start starts a stand-in for one test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{Model: demomodel.New(), token: "ghu_standin", valid: -1, account: individual(), models: UsualModels(), came: make(chan struct{}), queued: map[string][]Answer{}, always: map[string]Answer{}}
	if err := s.Model.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	by, err := newIssuer()
	if err != nil {
		tb.Fatal(err)
	}
	s.issuer = by
	s.CertifyFrom(tb, time.Now().Add(-time.Hour))
	s.certFile = filepath.Join(tb.TempDir(), "authority.pem")
	if err := os.WriteFile(s.certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: by.der}), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.http = httptest.NewUnstartedServer(s.routes())
	s.http.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*s.cert}}, nil
	}}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that end are no fault
	s.http.StartTLS()
	tb.Cleanup(func() {
		if err := s.Model.Close(); err != nil {
			tb.Errorf("closing the stand-in's model: %v", err)
		}
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// URL is where the stand-in listens.
func (s *Server) URL() string { return s.http.URL }

// Token is the token that it accepts.
func (s *Server) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// Env are the variables by which the runtime takes the stand-in for GitHub.
// The runtime speaks to its host by TLS alone, so they name a certificate too.
func (s *Server) Env() []string {
	return []string{"GH_HOST=" + strings.TrimPrefix(s.http.URL, "https://"), "SSL_CERT_FILE=" + s.certFile}
}

// Accept replaces the token: the one before is refused from now on.
func (s *Server) Accept(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.valid = token, -1
}

// ExpireAfter lets the token expire after this many more requests.
func (s *Server) ExpireAfter(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.valid = requests
}

// CertifyFrom replaces the certificate by one that is valid for a day from then.
func (s *Server) CertifyFrom(tb testing.TB, from time.Time) {
	tb.Helper()
	cert, err := s.issuer.issue(from, from.Add(24*time.Hour))
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cert = cert
}

// SetAccount replaces who the token belongs to.
func (s *Server) SetAccount(a Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account = a
}

// SetModels replaces the list of models.
func (s *Server) SetModels(models ...Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = slices.Clone(models)
}

// Answer queues answers to requests for a path; each is given once.
func (s *Server) Answer(path string, answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued[path] = append(s.queued[path], answers...)
}

// Always gives one answer to all requests for a path for which none is queued.
func (s *Server) Always(path string, a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always[path] = a
}

// SetCredits bills each request to a model with so many AI credits.
func (s *Server) SetCredits(n float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credits = n
}

// creditUsage is what answers tell of credits; nil if nothing.
func (s *Server) creditUsage() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.credits == 0 {
		return nil
	}
	return fmt.Appendf(nil, `{"token_details":[],"total_nano_aiu":%.0f}`, s.credits*1e9)
}

// Premium is how many premium requests GitHub would have counted so far: the
// model's multiplier for each request that a person's prompt is the reason of,
// unless it was refused.
func (s *Server) Premium() (total float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		var body struct{ Model string }
		if c.Header.Get("X-Initiator") != "user" || c.Method != http.MethodPost || c.Status >= http.StatusBadRequest || c.Dropped || json.Unmarshal(c.Body, &body) != nil {
			continue
		}
		for _, m := range s.models {
			if m.ID == body.Model {
				total += m.Multiplier
			}
		}
	}
	return total
}

// Calls returns the requests for a path so far, oldest first; all for "".
func (s *Server) Calls(path string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if path == "" || c.Path == path {
			out = append(out, *c)
		}
	}
	return out
}

// Await waits until a request for a path has come.
func (s *Server) Await(tb testing.TB, path string) {
	tb.Helper()
	for {
		s.mu.Lock()
		next := s.came
		s.mu.Unlock()
		if len(s.Calls(path)) > 0 {
			return
		}
		select {
		case <-next:
		case <-tb.Context().Done():
			tb.Fatal("no request came for " + path)
		}
	}
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+UserPath, s.user)
	mux.HandleFunc("GET "+ModelsPath, s.list)
	mux.HandleFunc("POST "+CodePath, s.deviceCode)
	mux.HandleFunc("POST "+TokenPath, s.deviceToken)
	mux.HandleFunc("POST "+ChatPath, s.chat)
	mux.HandleFunc("POST "+ResponsesPath, s.converted(responses{}))
	mux.HandleFunc("POST "+MessagesPath, s.converted(messages{}))
	tools := mcpHandler()
	mux.Handle("/mcp", tools)
	mux.Handle("/mcp/", tools)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
		if err != nil {
			return // the client has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		call := &Call{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body, At: time.Now()}
		answer, scripted, good := s.receive(call, r.Header.Get("Authorization"))
		seen := &statusWriter{ResponseWriter: w}
		defer func() {
			p := recover()
			s.mu.Lock()
			call.Status = seen.status
			call.Dropped = p != nil && seen.status == 0 && r.Context().Err() == nil
			s.mu.Unlock()
			if p != nil {
				panic(p)
			}
		}()
		if answer.Delay > 0 {
			select {
			case <-time.After(answer.Delay):
			case <-r.Context().Done():
				return
			}
		}
		switch {
		case answer.Cut:
			panic(http.ErrAbortHandler)
		case scripted && answer.Status != 0:
			for name, values := range answer.Header {
				seen.Header()[name] = values
			}
			if seen.Header().Get("Content-Type") == "" {
				seen.Header().Set("Content-Type", "application/json")
			}
			seen.WriteHeader(answer.Status)
			_, _ = io.WriteString(seen, answer.Body) // the client may have gone
		case !good:
			writeJSON(seen, http.StatusUnauthorized, map[string]string{"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"})
		default:
			mux.ServeHTTP(seen, r)
		}
	})
}

// receive records a request, and says what it gets.
func (s *Server) receive(c *Call, authorization string) (a Answer, scripted, good bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	close(s.came)
	s.came = make(chan struct{})
	_, given, _ := strings.Cut(authorization, " ")
	good = given == s.token && s.valid != 0 || open(c.Path)
	if s.valid > 0 && !open(c.Path) {
		s.valid--
	}
	if q := s.queued[c.Path]; len(q) > 0 {
		s.queued[c.Path] = q[1:]
		return q[0], true, good
	}
	a, scripted = s.always[c.Path]
	return a, scripted, good
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}
