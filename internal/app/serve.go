package app

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/mcp"
	"github.com/copilot-bridge/copilot-bridge/internal/api/toolbus"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
)

// Serving says what a server offers.
type Serving struct {
	Workspace string
	ReadWrite bool
	// Asker is the person at the terminal, who consents to what agent/… models
	// and clients of the tool bus want to do; nil for none.
	Asker approval.Asker
	// RPCPort, if set, is where the tool bus listens by itself; 0 for a free
	// port.
	RPCPort *int
	// Private: the server is for one client that this process starts. Its port is not
	// remembered, and with its token nobody can consent to anything.
	Private bool

	hub *toolbus.Hub // nil if clients of the tool bus cannot be asked
}

func (o Serving) defaults() policy.Defaults {
	if o.ReadWrite {
		return policy.DefaultsRun()
	}
	return policy.DefaultsServe()
}

// Server answers over HTTP until it is told to stop.
type Server struct {
	bridge *Bridge
	front  *httpserver.Server
	rpc    *httpserver.Server // for the tool bus alone, or nil
	*apis
	backend *toolbusBackend
	tools   *mcp.Server // the tool bus in a window over MCP, or nil
}

// Listen binds the configured address and puts the doors behind it. The
// runtime is started meanwhile; it is warm soon after Serve has begun.
func (b *Bridge) Listen(ctx context.Context, o Serving) (*Server, error) {
	if b.opts.Config.Serve.Token != "" && !o.Private {
		// Clients with the token may consent. Without a token every program on this
		// machine could.
		o.hub = &toolbus.Hub{}
	}
	if w := b.opts.Window; w != nil {
		// Every client has the token there, so consent is the person's alone.
		o.hub, o.Asker = nil, editor.NewDialogs(w.conn, b.opts.Config.Engine.ApprovalTimeout)
		if o.ReadWrite && !w.Trusted() {
			b.opts.Logger.Warn("window.untrusted: nothing is written")
			o.ReadWrite = false
		}
	}
	s := &Server{bridge: b, apis: b.apis(o)}
	// It is called only after the address is bound.
	status := func(ctx context.Context) toolbus.Status {
		return toolbus.Status{Version: b.opts.Version, URL: s.URL(), RPC: s.RPC(), ReadOnly: s.ReadOnly(), Copilot: s.health(ctx).Copilot, Answers: b.nowadays(b.Answers.Answers).Detail}
	}
	s.backend = b.newBackend(o, func(dir string) (*guard.Guard, error) {
		one := o
		one.Workspace = dir
		return b.busGate(one)
	}, status)
	if err := s.openFolders(ctx, o); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	if err := s.listen(ctx, o); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	b.tellURL(s.URL())
	if w := b.opts.Window; w != nil {
		w.mu.Lock()
		w.server = s
		w.mu.Unlock()
	}
	return s, nil
}

// openFolders opens the served directory, or a window's folders. A policy
// that cannot be read, or a log that cannot be written, should stop the start
// and not the first caller.
func (s *Server) openFolders(ctx context.Context, o Serving) error {
	if w := s.bridge.opts.Window; w != nil {
		if _, _, err := s.bridge.guard.shared(s.bridge.opts.Config, s.bridge.opts.UserDir); err != nil {
			return err
		}
		w.openFolders(ctx, s.backend.Folders)
		return nil
	}
	return s.backend.Set(ctx, []workspace.Folder{{Name: filepath.Base(o.Workspace), Dir: o.Workspace}})
}

// listen binds one address for everything, or a second one for the tool bus.
func (s *Server) listen(ctx context.Context, o Serving) (err error) {
	b, c := s.bridge, s.bridge.opts.Config
	rpc := toolbus.New(s.backend, toolbus.Options{Hub: o.hub, Sessions: watched{b.Engine}, Version: b.opts.Version, Logger: b.opts.Logger})
	opts := httpserver.Options{
		Addr: c.Serve.Addr, Port: c.Serve.Port, Token: string(c.Serve.Token), Hosts: c.Serve.Hosts,
		Ports: &httpserver.Ports{File: c.Path("state.json"), Name: "serve"},
		Doors: s.handlers(),
		About: func() httpserver.About {
			return httpserver.About{Version: b.opts.Version, Answers: b.Answers.Detail, Workspace: o.Workspace, ReadOnly: s.ReadOnly(), Model: s.example()}
		},
		DrainTimeout: c.Serve.DrainTimeout, Health: s.health, Metrics: s.metrics(), Tracer: b.tracer, Notice: b.Answers.Notice, Logger: b.opts.Logger,
	}
	if o.Private {
		opts.Ports = nil
	}
	names := [2]string{"serve", "rpc"}
	if w := b.opts.Window; w != nil {
		names = [2]string{w.portName(), w.portName() + "-rpc"}
		opts.DrainTimeout = 0 // without its editor there is no model
		opts.Ports.Name = names[0]
		for pattern, door := range opts.Doors {
			opts.Doors[pattern] = w.counted(door)
		}
		rpc = w.counted(rpc)
		if s.tools, err = s.busTools(); err != nil {
			return err
		}
		tools := w.counted(s.tools.Handler())
		opts.Doors["POST /mcp"], opts.Doors["GET /mcp"], opts.Doors["DELETE /mcp"] = tools, tools, tools
	}
	if !o.Private && b.opts.Window == nil { // with their token nobody may consent to anything
		if err := s.mountDashboard(ctx, o, &opts); err != nil {
			return err
		}
	}
	if o.RPCPort == nil {
		opts.Doors["GET /rpc"], opts.Doors["POST /rpc"] = rpc, rpc
	}
	if s.front, err = httpserver.Listen(ctx, opts); err != nil || o.RPCPort == nil {
		return err
	}
	opts.Port, opts.Ports = *o.RPCPort, &httpserver.Ports{File: c.Path("state.json"), Name: names[1]}
	opts.Doors = map[string]http.Handler{"GET /rpc": rpc, "POST /rpc": rpc}
	opts.Open, opts.Page, opts.LoggedIn = nil, nil, nil
	if s.rpc, err = httpserver.Listen(ctx, opts); err != nil {
		return errors.Join(err, s.front.Close())
	}
	return nil
}

// close ends what the doors stand on.
func (s *Server) close(ctx context.Context) error {
	if s.tools != nil {
		s.tools.Close()
	}
	return errors.Join(s.backend.Close(ctx), s.apis.close(ctx))
}

// URL is where the server is reached.
func (s *Server) URL() string { return s.front.URL() }

// ReadOnly says whether every write in the workspace needs consent.
func (s *Server) ReadOnly() bool { return s.backend.ReadOnly() }

// RPC is where the tool bus is reached.
func (s *Server) RPC() string {
	at := s.front
	if s.rpc != nil {
		at = s.rpc
	}
	return "ws" + strings.TrimPrefix(at.URL(), "http") + "/rpc"
}

// Serve answers until ctx ends. Running answers may then finish within a bound,
// the rest are ended cleanly, and after them what they ran on. ready is called
// when requests are answered.
func (s *Server) Serve(ctx context.Context, ready func()) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.chat.Ready(ctx); bridge.CodeOf(err) == bridge.CodeUnsupported {
			s.bridge.opts.Logger.Warn("serve.agents_only", "error", err)
		} else if err != nil && ctx.Err() == nil {
			s.bridge.opts.Logger.Warn("serve.copilot_unavailable", "error", err)
		}
		ready()
		if w := s.bridge.opts.Window; w != nil {
			w.announce(ctx, s)
		}
		if err := s.bridge.warm(ctx); err != nil && ctx.Err() == nil {
			s.bridge.opts.Logger.Warn("serve.warm_failed", "error", err)
		}
	})
	var rpcErr error
	if s.rpc != nil {
		wg.Go(func() { rpcErr = s.rpc.Serve(ctx) })
	}
	if s.tools != nil {
		// Calls end first: the front waits for their answers.
		defer context.AfterFunc(ctx, s.tools.Close)()
	}
	err := s.front.Serve(ctx)
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	return errors.Join(err, rpcErr, s.close(ctx))
}

// warm lets the chat runtimes run a turn on a model of our own, which costs
// nothing, so that the first callers do not pay for it.
func (b *Bridge) warm(ctx context.Context) error {
	if b.opts.Window != nil {
		return nil // there is no runtime
	}
	m := demomodel.New(demomodel.WithJournal(0), demomodel.WithLogger(b.opts.Logger))
	if err := m.Start(ctx); err != nil {
		return err
	}
	err := b.Engine.Warm(ctx, bridge.ProfileChat, bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}, m.Model())
	return errors.Join(err, m.Close())
}

// serveGate is the guard of the served workspace for one door.
func (b *Bridge) serveGate(o Serving, door string, asker approval.Asker, tools []bridge.ToolSpec) (*guard.Guard, error) {
	if asker == nil {
		asker = approval.Nobody{}
	}
	return b.Gate(Guarding{Workspace: o.Workspace, Door: door, Asker: asker, Defaults: o.defaults(), Tools: tools})
}

// busGate is the guard of the tool bus. Clients with the token may consent, and so
// may the person at the terminal of serve. Where there is either, writing in a workspace that is read-only by default is a question.
func (b *Bridge) busGate(o Serving) (*guard.Guard, error) {
	d, who := o.defaults(), o.asker()
	d.ReadOnlyAsks = who.hub != nil || who.terminal != nil
	if w := b.opts.Window; w != nil && !w.Trusted() {
		d.ReadOnlyAsks = false // the user has not yet said whether to trust the code
	}
	return b.Gate(Guarding{Workspace: o.Workspace, Door: "toolbus", Caller: "A client of the tool bus", Asker: who, Defaults: d,
		Lenient: b.opts.Window != nil}) // the window stays open when the file is mended
}

// watched are the sessions of agents, as clients of the tool bus see them.
type watched struct{ engine *engine.Engine }

func (w watched) Sessions() (out []toolbus.Session) {
	for _, s := range w.engine.AgentSessions() {
		o := s.Opened()
		out = append(out, toolbus.Session{ID: s.ID(), API: s.Door(), Model: o.Model, Directory: o.WorkingDir, Running: s.Busy()})
	}
	slices.SortStableFunc(out, func(a, b toolbus.Session) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (w watched) find(id string) (*engine.Session, error) {
	all := w.engine.AgentSessions()
	if i := slices.IndexFunc(all, func(s *engine.Session) bool { return s.ID() == id }); i >= 0 {
		return all[i], nil
	}
	return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "no session " + id + " is open here", Remedy: "bridge.sessions.list has those that are"}
}

func (w watched) Say(ctx context.Context, id, text string, after bool) error {
	s, err := w.find(id)
	switch {
	case err != nil:
		return err
	case after:
		return s.Enqueue(bridge.Prompt{Text: text})
	}
	return s.Steer(ctx, bridge.Prompt{Text: text})
}

func (w watched) Stop(ctx context.Context, id string) error {
	s, err := w.find(id)
	if err != nil {
		return err
	}
	return s.Abort(ctx)
}

// asker is who consents to what clients of the tool bus and agent/… models do.
func (o Serving) asker() busAsker {
	who := busAsker{hub: o.hub}
	if _, nobody := o.Asker.(approval.Nobody); !nobody {
		who.terminal = o.Asker
	}
	return who
}

// busAsker asks clients that have subscribed and, if there are none, the
// person at the terminal. Either may be nil.
type busAsker struct {
	hub      *toolbus.Hub
	terminal approval.Asker
}

func (a busAsker) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	switch {
	case a.hub != nil && a.hub.Hears(ctx):
		return a.hub.Ask(ctx, q)
	case a.terminal != nil:
		return a.terminal.Ask(ctx, q)
	}
	return approval.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval and nobody is there to give it",
		Remedy: "allow it in a policy, or have a client with the token subscribe to approvals, see docs/guides/toolbus.md"}
}

// health asks the runtime itself and knows what the last turn met, or knows from
// the last request to an editor.
func (s *Server) health(ctx context.Context) httpserver.Health {
	if w := s.bridge.opts.Window; w != nil {
		return w.health(s.bridge.Answers.Detail)
	}
	h := httpserver.Health{OK: true, Copilot: httpserver.CopilotOK, Ready: true, Details: map[string]any{"answers": s.bridge.Answering()}}
	status, err := s.bridge.Engine.Status(ctx)
	switch {
	case err != nil:
		h.Copilot, h.Ready, h.Reason = httpserver.CopilotUnavailable, false, reason(bridge.AsError(err))
	case status.Failure != nil:
		h.Copilot, h.Ready, h.Reason = httpserver.CopilotUnavailable, false, reason(status.Failure)
	case !status.Authenticated:
		h.Copilot, h.Ready, h.Reason = httpserver.CopilotUnavailable, false, "not logged in"
	default:
		h.Details["runtime_reports"] = status.RuntimeVersion // not the version of its package, which `version` shows
		if s.bridge.Answers.Kind == bridge.AnswersDemo {
			h.Copilot = httpserver.CopilotDemo
		}
		if t := s.bridge.Engine.Trouble(); t != nil {
			h.Copilot, h.Ready, h.Reason = httpserver.CopilotUnavailable, !t.Fresh(), reason(t.Error)
			if t.Code == bridge.CodeQuota && t.Detail != nil && len(t.Detail.FreeModels) > 0 {
				h.Copilot, h.Ready = httpserver.CopilotLimited, true
			}
			h.Details["since"] = t.At.UTC().Format(time.RFC3339)
		}
	}
	return h
}

// Copilot says what is wrong with Copilot, nothing if it can answer. It does not
// wait long for that.
func (s *Server) Copilot(ctx context.Context) (state, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if h := s.health(ctx); h.Copilot == httpserver.CopilotUnavailable {
		return h.Copilot, h.Reason
	}
	return "", ""
}

func reason(e *bridge.Error) string {
	if e.Remedy == "" {
		return e.Message
	}
	return e.Message + "; " + e.Remedy
}

// example is a model for the first page.
func (s *Server) example() string {
	if m := s.bridge.Spec(bridge.ProfileChat, "").Model; m != "" {
		return m
	}
	if names := s.modelNames(); len(names) > 0 {
		return names[0]
	}
	return ""
}

// modelNames are those that chats can use, if that is known soon.
func (s *Server) modelNames() (names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	list, _ := s.chat.Models(ctx) // none: the examples do without
	for _, m := range list {
		names = append(names, m.Name)
	}
	return names
}
