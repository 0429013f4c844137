package demomodel

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const (
	maxBody        = 32 << 20
	bodyTimeout    = 30 * time.Second
	defaultJournal = 1000
)

// Server is the model behind a loopback port. Its methods may be called from
// any goroutine.
type Server struct {
	log      *slog.Logger
	key      string
	journal  journal
	attempts attempts
	replies  atomic.Int64 // ids of replies
	calls    atomic.Int64 // ids of tool calls

	mu       sync.Mutex
	queue    []Reply
	handlers []func(Request) (Reply, bool)
	url      string
	http     *http.Server
	stop     context.CancelFunc
	closed   bool
	active   sync.WaitGroup // the serving goroutine, every connection, every handler
}

// Option changes a new server.
type Option func(*Server)

// WithJournal keeps the last n requests for Requests; 0 keeps none. The
// default is 1000.
func WithJournal(n int) Option { return func(s *Server) { s.journal.limit = n } }

// WithLogger tells the server where to report faults; by default nowhere.
func WithLogger(log *slog.Logger) Option { return func(s *Server) { s.log = log } }

// New returns a server that is not yet started. Its key is random.
func New(opts ...Option) *Server {
	s := &Server{log: slog.New(slog.DiscardHandler), key: "rehearsal-" + rand.Text()}
	s.journal.limit = defaultJournal
	for _, o := range opts {
		o(s)
	}
	return s
}

// Start listens on a free port of 127.0.0.1 and serves until Close. The
// context bounds the start alone.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil || s.closed {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "the demo model was started before"}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return &bridge.Error{
			Code: bridge.CodeUnavailable, Message: "the demo model cannot listen on 127.0.0.1",
			Remedy: "Allow this program to open a port on the loopback interface.", Cause: err,
		}
	}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.url = "http://" + l.Addr().String()
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnState:         s.connState,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	srv := s.http
	s.active.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the demo model stopped serving", "error", err)
		}
	})
	return nil
}

// Close ends every reply in flight, frees the port and returns when all
// goroutines have gone. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	srv, stop := s.http, s.stop
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	var err error
	if srv != nil && first {
		stop()
		err = srv.Close()
	}
	s.active.Wait()
	return err
}

// URL is the base URL for an OpenAI-type provider; empty before Start.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// Key is the API key that requests must carry.
func (s *Server) Key() string { return s.key }

// Model is the id of the model.
func (s *Server) Model() string { return ModelID }

// Requests returns the last chat requests, oldest first.
func (s *Server) Requests() []Request { return s.journal.all() }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/v1"} {
		mux.HandleFunc("POST "+prefix+"/chat/completions", s.chat)
		mux.HandleFunc("GET "+prefix+"/models", s.models)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, http.StatusNotFound, "no such route: "+r.Method+" "+text.Clip(r.URL.Path, 200))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			s.refuse(w, http.StatusServiceUnavailable, "the demo model is closing")
			return
		}
		defer s.active.Done()
		if !s.authorized(r) {
			s.refuse(w, http.StatusUnauthorized, "Incorrect API key provided.")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// connState counts connections, since their goroutines outlive the handlers:
// the server lingers on a connection whose request it did not read to the end.
// New ones are counted by the serving goroutine, which is counted itself.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.active.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.active.Done()
	case http.StateActive, http.StateIdle:
	}
}

// enter counts a handler in: one that took its connection over is no longer
// counted with it.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.active.Add(1)
	return true
}

func (s *Server) authorized(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	// Hashed, so that not even the length of the key can be timed.
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.key))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && ok
}

func (s *Server) refuse(w http.ResponseWriter, status int, message string) {
	s.report(statusStep{status: status, message: message}.send(w))
}

// report notes a failed write. The client is gone and cannot be told.
func (s *Server) report(err error) {
	if err != nil {
		s.log.Debug("the demo model could not answer", "error", err)
	}
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.report(json.NewEncoder(w).Encode(map[string]any{
		"object": "list",
		"data":   []any{map[string]any{"id": ModelID, "object": "model", "owned_by": "copilot-bridge"}},
	}))
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
		s.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody))
		return
	}
	if err != nil {
		s.refuse(w, http.StatusBadRequest, "the body could not be read")
		return
	}
	req, err := decodeRequest(body)
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	req.Path = r.URL.Path
	req.Header = r.Header.Clone()
	req.Header.Del("Authorization")
	s.journal.add(req)

	id := fmt.Sprintf("chatcmpl-rehearsal-%d", s.replies.Add(1))
	p := player{ctx: r.Context(), newID: s.callIDs(req), out: &output{w: w, rc: http.NewResponseController(w), req: req, id: id}}
	if err := p.play(s.choose(req), req); err != nil {
		// Returning would end the answer as if it were whole.
		s.report(errors.Join(err, p.out.cut()))
	}
}

// readBody reads all of the body first: only then does the server notice a
// client that goes away.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= maxBody {
		body.Grow(int(r.ContentLength) + bytes.MinRead) // so that it is read without growing
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	return body.Bytes(), errors.Join(err, rc.SetReadDeadline(time.Time{}))
}

// callIDs numbers tool calls and skips ids that the conversation holds
// already, as one does that began under an earlier server.
func (s *Server) callIDs(req *Request) func() string {
	var used map[string]bool
	return func() string {
		if used == nil {
			used = req.callIDs()
		}
		for {
			if id := fmt.Sprintf("call_%d", s.calls.Add(1)); !used[id] {
				return id
			}
		}
	}
}
