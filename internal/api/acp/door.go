package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
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
	methods map[string]starter
	conn    *jsonrpc.Conn

	mu       sync.Mutex
	client   acpwire.ClientCapabilities
	name     string // of the client, for the record
	notices  bool   // the client shows notices
	sessions map[string]*session
	opening  int // sessions that are about to be open
	models   []bridge.Model
}

// Serve answers one client until the stream or ctx ends, and returns when all
// turns, sessions and goroutines have ended. Only messages are written to w.
func Serve(ctx context.Context, s Service, r io.Reader, w io.Writer, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &door{service: s, opts: o, sessions: map[string]*session{}}
	d.methods = d.routes()
	d.conn = acpwire.NewConn(r, w, d, jsonrpc.Options{AnswerMalformed: true, Malformed: func(line []byte, err error) {
		o.Logger.Warn("acp.malformed_line", "error", err, "bytes", len(line))
	}})
	err := d.conn.Run(ctx)
	return errors.Join(err, d.closeAll(ctx))
}

// closeAll closes the sessions that are open when the connection has ended.
func (d *door) closeAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	d.mu.Lock()
	open := slices.Collect(maps.Values(d.sessions))
	d.sessions = nil
	d.mu.Unlock()
	var wg sync.WaitGroup
	errs := make([]error, len(open))
	for i, s := range open {
		wg.Go(func() { errs[i] = s.live.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Request implements jsonrpc.Handler. Turns begin in the order of their messages;
// the rest happens in the function that it returns.
func (d *door) Request(ctx context.Context, method string, params json.RawMessage) func() (any, error) {
	if start := d.methods[method]; start != nil {
		return start(ctx, params)
	}
	return nil
}

// starter begins to answer a request.
type starter func(ctx context.Context, params json.RawMessage) func() (any, error)

func (d *door) routes() map[string]starter {
	return map[string]starter{
		acpwire.MethodInitialize:      answer(d.initialize),
		acpwire.MethodAuthenticate:    answer(d.authenticate),
		acpwire.MethodSessionNew:      answer(d.newSession),
		acpwire.MethodSessionLoad:     answer(d.load),
		acpwire.MethodSessionResume:   answer(d.resume),
		acpwire.MethodSessionList:     answer(d.list),
		acpwire.MethodSessionDelete:   answer(d.delete),
		acpwire.MethodSessionClose:    answer(d.closeSession),
		acpwire.MethodSessionPrompt:   d.prompt,
		acpwire.MethodSetMode:         answer(d.setMode),
		acpwire.MethodSetConfigOption: answer(d.setOption),
		acpwire.MethodSetModel:        answer(d.setModel),
	}
}

// answer decodes the parameters for f and maps its error.
func answer[P any](f func(context.Context, P) (any, error)) starter {
	return func(ctx context.Context, params json.RawMessage) func() (any, error) {
		return func() (any, error) {
			p, err := decode[P](params)
			if err != nil {
				return nil, err
			}
			result, err := f(ctx, p)
			return result, wireError(err)
		}
	}
}

func decode[P any](params json.RawMessage) (P, error) {
	var p P
	if len(params) == 0 {
		return p, nil // each method says what it misses
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return p, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the parameters are not understood: %v", err)
	}
	return p, nil
}

// Notification implements jsonrpc.Handler.
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

func (d *door) initialize(_ context.Context, p acpwire.InitializeRequest) (any, error) {
	var shows struct {
		Notices *struct{} `json:"notices"`
	}
	if len(p.Capabilities.Session) > 0 {
		// What cannot be read is not used.
		_ = json.Unmarshal(p.Capabilities.Session, &shows)
	}
	d.mu.Lock()
	d.client, d.notices = p.Capabilities, shows.Notices != nil
	if c := p.ClientInfo; c != nil {
		d.name = strings.TrimSpace(c.Name + " " + c.Version)
	}
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
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "there is no way to log in called %q", p.MethodID)
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
	return nil, errNotOpen(id)
}

func errNotOpen(id string) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "no session " + id + " is open",
		Remedy: "open one with session/new, or a stored one with session/load"}
}

// wireCodes are the protocol's codes; other errors are jsonrpc.CodeInternal.
var wireCodes = map[bridge.Code]int{
	bridge.CodeInvalid:         jsonrpc.CodeInvalidParams,
	bridge.CodeUnsupported:     jsonrpc.CodeInvalidParams,
	bridge.CodeNotFound:        acpwire.CodeResourceNotFound,
	bridge.CodeUnauthenticated: acpwire.CodeAuthRequired,
	bridge.CodeConflict:        jsonrpc.CodeInvalidRequest,
	bridge.CodeCanceled:        jsonrpc.CodeCanceled,
}

// wireError is an error for the client. Most clients show only the message, so the
// problem and the remedy are in it.
func wireError(err error) error {
	var sent *jsonrpc.Error
	if err == nil || errors.As(err, &sent) {
		return err
	}
	e := bridge.AsError(err)
	text := err.Error()
	if !strings.Contains(text, e.Message) {
		text = e.Error() // a cause that was not written for people
	}
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	out := jsonrpc.Errorf(cmp.Or(wireCodes[e.Code], jsonrpc.CodeInternal), "%s", text)
	data, encodeErr := json.Marshal(struct {
		Code    bridge.Code `json:"code"`
		Details string      `json:"details"`
		Remedy  string      `json:"remedy,omitempty"`
		Retry   int64       `json:"retryAfterMs,omitempty"`
	}{e.Code, err.Error(), e.Remedy, e.RetryAfter.Milliseconds()})
	if encodeErr == nil {
		out.Data = data
	}
	return out
}
