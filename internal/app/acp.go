package app

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/upkeep"
)

// ServeACP is an agent of the Agent Client Protocol on r and w until the
// client ends the stream. readOnly forbids writing where no rule allows it.
func (b *Bridge) ServeACP(ctx context.Context, r io.Reader, w io.Writer, readOnly bool) error {
	return acp.Serve(ctx, b.acpService(readOnly), r, w, b.acpOptions())
}

// ListenACP is ServeACP for clients that connect to a port of this machine.
// ready is called with the address when they can. Each sends the configured
// token first.
func (b *Bridge) ListenACP(ctx context.Context, port int, readOnly bool, ready func(address string)) error {
	l, err := httpserver.ListenTCP(ctx, netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	if err != nil {
		return err
	}
	ready(l.Addr().String())
	return acp.ServeTCP(ctx, l, string(b.opts.Config.Serve.Token), b.acpService(readOnly), b.acpOptions())
}

func (b *Bridge) acpService(readOnly bool) acp.Service {
	return acpService{b, Serving{ReadWrite: !readOnly}.defaults(), &openSessions{ended: map[string]chan struct{}{}}}
}

func (b *Bridge) acpOptions() acp.Options {
	spec := b.Spec(bridge.ProfileAgent, "")
	opts := acp.Options{Version: b.opts.Version, Model: spec.Model, Effort: spec.ReasoningEffort, Logger: b.opts.Logger}
	if b.Answers.Kind != bridge.AnswersProvider && !b.opts.Config.Demo {
		opts.Login = "Run `copilot-bridge login` in a terminal, or set COPILOT_GITHUB_TOKEN and start this agent again"
	}
	return opts
}

// acpService is the engine as the ACP door wants it.
type acpService struct {
	*Bridge
	defaults policy.Defaults
	open     *openSessions
}

// openSessions are the sessions that clients have open, by id. A session of
// one client is not opened by another.
type openSessions struct {
	mu    sync.Mutex
	ended map[string]chan struct{} // closed when the session has ended
}

// endsWithin bounds the wait for a session of a client that is leaving.
const endsWithin = 10 * time.Second

// take makes a session the caller's until release is called, which may be more
// than once.
func (o *openSessions) take(ctx context.Context, id string) (release func(), err error) {
	late := time.NewTimer(endsWithin)
	defer late.Stop()
	for {
		o.mu.Lock()
		other := o.ended[id]
		if other == nil {
			own := make(chan struct{})
			o.ended[id] = own
			o.mu.Unlock()
			return sync.OnceFunc(func() {
				o.mu.Lock()
				delete(o.ended, id)
				o.mu.Unlock()
				close(own)
			}), nil
		}
		o.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "session " + id + " is open in another client", Remedy: "close it there first"}
		}
	}
}

func (s acpService) Open(ctx context.Context, o acp.Opening) (acp.Session, error) {
	req, gate, err := s.request(ctx, o)
	if err != nil {
		return nil, err
	}
	opened, err := s.Engine.Open(ctx, req)
	if err != nil {
		return nil, err
	}
	release, err := s.open.take(ctx, opened.ID())
	if err != nil {
		return nil, errors.Join(err, opened.Close(context.WithoutCancel(ctx)))
	}
	return acpSession{opened, gate, release}, nil
}

func (s acpService) Resume(ctx context.Context, id string, o acp.Opening) (acp.Session, error) {
	entry, err := s.entry(ctx, id)
	if err == nil && entry.Profile != sessionstore.ProfileAgent {
		err = noSession(id)
	}
	if err != nil {
		return nil, err
	}
	req, gate, err := s.request(ctx, o)
	if err != nil {
		return nil, err
	}
	if entry.Model != "" {
		req.Spec.Model = entry.Model // a session keeps its model
	}
	release, err := s.open.take(ctx, id)
	if err != nil {
		return nil, err
	}
	opened, err := s.Engine.Resume(ctx, id, req)
	if bridge.CodeOf(err) == bridge.CodeNotFound && entry.Turns == 0 {
		// Nothing was said in it yet, so the agent has not stored it.
		req.Spec.ID, req.Mode = id, entry.Mode
		opened, err = s.Engine.Open(ctx, req)
	}
	if err != nil {
		release()
		return nil, err
	}
	return acpSession{opened, gate, release}, nil
}

// entry finds a session by its whole id: the protocol knows no shortened ones.
func (s acpService) entry(ctx context.Context, id string) (sessionstore.Entry, error) {
	entry, err := Store(s.opts.Config).Get(ctx, id)
	if err == nil && entry.ID != id {
		err = noSession(id)
	}
	return entry, err
}

func noSession(id string) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no session " + id}
}

func (s acpService) request(ctx context.Context, o acp.Opening) (engine.Request, *guard.Guard, error) {
	spec := s.Spec(bridge.ProfileAgent, o.WorkingDir)
	spec.MCPServers = withServers(spec.MCPServers, o.MCPServers)
	if o.Headers != nil {
		spec.Headers = o.Headers
	}
	g := Guarding{Workspace: o.WorkingDir, Door: "acp", Client: o.Client, Asker: o.Asker, Defaults: s.defaults, Servers: slices.Sorted(maps.Keys(o.MCPServers))}
	// The client has started this agent and acts for the person: naming a
	// server is their consent, where the policy does not say no.
	consented := g
	consented.Asker = approval.Yes{}
	if err := s.permitServers(ctx, consented, o.MCPServers); err != nil {
		return engine.Request{}, nil, err
	}
	gate, err := s.Gate(g)
	if err != nil {
		return engine.Request{}, nil, err
	}
	spec.Gate, spec.Person = gate, s.Person(g, gate, o.Person)
	return engine.Request{Spec: spec, Door: "acp", Client: o.Client, Keep: true}, gate, nil
}

func (s acpService) Sessions(ctx context.Context) ([]bridge.SessionInfo, error) {
	list, err := s.Engine.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	var out []bridge.SessionInfo
	for _, e := range list {
		// One without a turn may not be stored by the agent at all.
		if e.Agent == s.Engine.Agent() && e.Profile == sessionstore.ProfileAgent && e.Turns > 0 {
			out = append(out, bridge.SessionInfo{ID: e.ID, Title: e.Title, WorkingDir: e.WorkingDirectory, Started: e.Created, Modified: e.Updated})
		}
	}
	return out, nil
}

func (s acpService) Delete(ctx context.Context, id string) error {
	if _, err := s.entry(ctx, id); err != nil {
		return err
	}
	release, err := s.open.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	return errors.Join(s.Engine.Delete(ctx, id), upkeep.Timelines(s.opts.Config).Remove(id))
}

func (s acpService) Models(ctx context.Context) ([]bridge.Model, error) { return s.Engine.Models(ctx) }

func (s acpService) Login(ctx context.Context) error {
	status, err := s.Engine.Status(ctx)
	if err == nil && status.Failure != nil && status.Failure.Problem() != bridge.ProblemLogin {
		return status.Failure
	}
	if err == nil && (!status.Authenticated || s.Answers.Kind == bridge.AnswersDemo) {
		err = &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "nobody is logged in to GitHub Copilot",
			Remedy: "run `copilot-bridge login` in a terminal, or set COPILOT_GITHUB_TOKEN and start this agent again"}
	}
	return err
}

// acpSession is a session of the engine with its guard.
type acpSession struct {
	*engine.Session
	gate    *guard.Guard
	release func()
}

func (s acpSession) Close(ctx context.Context) error {
	defer s.release()
	return s.Session.Close(ctx)
}

func (s acpSession) Consult(ctx context.Context, path string, read func(context.Context) (string, error)) (string, error) {
	denied := func(d bridge.Decision) error { return d.Denied(d.Reason, "") }
	return guard.Do(ctx, s.gate, bridge.ToolCall{Name: "view", Args: map[string]any{"path": path}}, denied,
		func(bridge.Decision) (string, error) { return read(ctx) }, func(text *string) []*string { return []*string{text} })
}
