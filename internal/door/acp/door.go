package acp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

const (
	// maxSessions bounds how many sessions one client has open.
	maxSessions = 32
	// closeWithin bounds the end of a session, its turn included.
	closeWithin = 10 * time.Second
	// modelsWithin bounds how long a new session waits for the list of models.
	modelsWithin = 3 * time.Second
)

// door is one connection.
type door struct {
	service Service
	opts    Options
	conn    *acpwire.Conn

	mu       sync.Mutex
	client   acpwire.ClientCapabilities
	notices  bool // the client shows notices
	sessions map[string]*session
	opening  int // sessions that are about to be open
	models   []bridge.Model
}

// Serve answers one client until it ends its stream or ctx ends, and returns
// when every turn is over, every session closed and every goroutine gone.
// Nothing but messages of the protocol is written to w.
func Serve(ctx context.Context, s Service, r io.Reader, w io.Writer, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &door{service: s, opts: o, sessions: map[string]*session{}}
	d.conn = acpwire.NewConn(r, w, d, acpwire.Options{AnswerMalformed: true, Malformed: func(line []byte, err error) {
		o.Logger.Warn("the client sent something that is no message", "error", err, "bytes", len(line))
	}})
	err := d.conn.Run(ctx)
	return errors.Join(err, d.closeAll(ctx))
}

// closeAll closes what the client left open. Its turns have ended with the
// connection.
func (d *door) closeAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	d.mu.Lock()
	open := d.sessions
	d.sessions = nil
	d.mu.Unlock()
	var wg sync.WaitGroup
	errs := make(chan error, len(open))
	for _, s := range open {
		wg.Go(func() { errs <- s.live.Close(ctx) })
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Request implements acpwire.Handler. What must happen in the order in which
// messages come, a turn's beginning above all, happens here; the rest in the
// function that it returns.
func (d *door) Request(ctx context.Context, method string, params json.RawMessage) func() (any, error) {
	switch method {
	case acpwire.MethodInitialize:
		return answer(params, d.initialize)
	case acpwire.MethodAuthenticate:
		return answer(params, func(p acpwire.AuthenticateRequest) (any, error) { return d.authenticate(ctx, p) })
	case acpwire.MethodSessionNew:
		return answer(params, func(p acpwire.NewSessionRequest) (any, error) { return d.newSession(ctx, p) })
	case acpwire.MethodSessionLoad:
		return answer(params, func(p acpwire.NewSessionRequest) (any, error) { return d.resume(ctx, p, true) })
	case acpwire.MethodSessionResume:
		return answer(params, func(p acpwire.NewSessionRequest) (any, error) { return d.resume(ctx, p, false) })
	case acpwire.MethodSessionList:
		return answer(params, func(p acpwire.ListSessionsRequest) (any, error) { return d.list(ctx, p) })
	case acpwire.MethodSessionDelete:
		return answer(params, func(p acpwire.SessionRef) (any, error) { return d.delete(ctx, p.SessionID) })
	case acpwire.MethodSessionClose:
		return answer(params, func(p acpwire.SessionRef) (any, error) { return d.closeSession(ctx, p.SessionID) })
	case acpwire.MethodSessionPrompt:
		return d.prompt(ctx, params)
	case acpwire.MethodSetMode:
		return answer(params, func(p acpwire.SetModeRequest) (any, error) { return d.setMode(ctx, p) })
	case acpwire.MethodSetConfigOption:
		return answer(params, func(p acpwire.SetConfigOptionRequest) (any, error) { return d.setOption(ctx, p) })
	case acpwire.MethodSetModel:
		return answer(params, func(p acpwire.SetModelRequest) (any, error) { return d.setModel(ctx, p) })
	}
	return nil
}

// answer decodes parameters and maps the error of what becomes of them.
func answer[P any](params json.RawMessage, f func(P) (any, error)) func() (any, error) {
	return func() (any, error) {
		p, err := decode[P](params)
		if err != nil {
			return nil, err
		}
		result, err := f(p)
		return result, wireError(err)
	}
}

func decode[P any](params json.RawMessage) (P, error) {
	var p P
	if len(params) == 0 {
		return p, nil // each method says what it misses
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return p, acpwire.Errorf(acpwire.CodeInvalidParams, "the parameters are not understood: %v", err)
	}
	return p, nil
}

// Notification implements acpwire.Handler.
func (d *door) Notification(method string, params json.RawMessage) {
	if method != acpwire.NotifyCancel {
		return // one that is not known needs no answer
	}
	if p, err := decode[acpwire.SessionRef](params); err == nil {
		if s := d.find(p.SessionID); s != nil {
			s.cancel()
		}
	}
}

func (d *door) initialize(p acpwire.InitializeRequest) (any, error) {
	var shows struct {
		Notices *struct{} `json:"notices"`
	}
	if len(p.Capabilities.Session) > 0 {
		// What cannot be read is not used.
		_ = json.Unmarshal(p.Capabilities.Session, &shows)
	}
	d.mu.Lock()
	d.client, d.notices = p.Capabilities, shows.Notices != nil
	d.mu.Unlock()
	able := acpwire.Able{}
	out := acpwire.InitializeResponse{
		// A client that speaks only a later version is told ours and decides.
		ProtocolVersion: acpwire.ProtocolVersion,
		AgentInfo:       &acpwire.Implementation{Name: "copilot-bridge", Title: "Copilot Bridge", Version: d.opts.Version},
		Capabilities: acpwire.AgentCapabilities{
			LoadSession: true,
			Prompt:      acpwire.PromptCapabilities{Image: true, EmbeddedContext: true},
			MCP:         acpwire.MCPCapabilities{HTTP: true},
			Session:     acpwire.SessionCapabilities{List: able, Delete: able, Resume: able, Close: able},
		},
	}
	if d.opts.Login != "" {
		out.AuthMethods = acpwire.List[acpwire.AuthMethod]{{ID: loginMethod, Name: "Log in to GitHub Copilot", Description: d.opts.Login}}
	}
	return out, nil
}

const loginMethod = "copilot-login"

func (d *door) authenticate(ctx context.Context, p acpwire.AuthenticateRequest) (any, error) {
	if p.MethodID != loginMethod || d.opts.Login == "" {
		return nil, acpwire.Errorf(acpwire.CodeInvalidParams, "there is no way to log in called %q", p.MethodID)
	}
	return struct{}{}, d.service.Login(ctx)
}

// find returns an open session, or nil.
func (d *door) find(id string) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[id]
}

// session returns an open session.
func (d *door) session(id string) (*session, error) {
	if s := d.find(id); s != nil {
		return s, nil
	}
	return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "no session " + id + " is open",
		Remedy: "open one with session/new, or a stored one with session/load"}
}
