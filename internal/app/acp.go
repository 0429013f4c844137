package app

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

// ServeACP is an agent of the Agent Client Protocol on r and w until the
// client ends the stream. readOnly forbids writing where no rule allows it.
func (b *Bridge) ServeACP(ctx context.Context, r io.Reader, w io.Writer, readOnly bool) error {
	d := policy.DefaultsRun()
	if readOnly {
		d = policy.DefaultsServe()
	}
	spec := b.Spec(bridge.ProfileAgent, "")
	opts := acp.Options{Version: b.opts.Version, Model: spec.Model, Effort: spec.ReasoningEffort, Logger: b.opts.Logger}
	if b.Answers.Kind != AnswersProvider && !b.opts.Demo {
		opts.Login = "Run `copilot login` in a terminal, or set COPILOT_GITHUB_TOKEN, and start this agent again"
	}
	return acp.Serve(ctx, acpService{b, d}, r, w, opts)
}

// acpService is the engine as the ACP door wants it.
type acpService struct {
	*Bridge
	defaults policy.Defaults
}

func (s acpService) Open(ctx context.Context, o acp.Opening) (acp.Session, error) {
	req, err := s.request(ctx, o)
	if err != nil {
		return nil, err
	}
	opened, err := s.Engine.Open(ctx, req)
	return guarded(req, opened, err)
}

func (s acpService) Resume(ctx context.Context, id string, o acp.Opening) (acp.Session, error) {
	// The list knows shortened ids, the protocol does not.
	entry, err := Store(s.opts.Config).Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if entry.ID != id || entry.Profile != sessionstore.ProfileAgent {
		return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no session " + id}
	}
	req, err := s.request(ctx, o)
	if err != nil {
		return nil, err
	}
	if entry.Model != "" {
		req.Spec.Model = entry.Model // a session keeps its model
	}
	opened, err := s.Engine.Resume(ctx, id, req)
	if bridge.CodeOf(err) == bridge.CodeNotFound && entry.Turns == 0 {
		// Nothing was said in it yet, so the agent has not stored it.
		req.Spec.ID = id
		opened, err = s.Engine.Open(ctx, req)
	}
	return guarded(req, opened, err)
}

func (s acpService) request(ctx context.Context, o acp.Opening) (engine.Request, error) {
	spec := s.Spec(bridge.ProfileAgent, o.WorkingDir)
	spec.MCPServers, spec.Person = withServers(spec.MCPServers, o.MCPServers), o.Person
	g := Guarding{Workspace: o.WorkingDir, Door: "acp", Asker: o.Asker, Defaults: s.defaults, Servers: slices.Sorted(maps.Keys(o.MCPServers))}
	// The client has started this agent and acts for the person: naming a
	// server is their consent, where the policy does not say no.
	consented := g
	consented.Asker = approval.Yes{}
	if err := s.permitServers(ctx, consented, o.MCPServers); err != nil {
		return engine.Request{}, err
	}
	gate, err := s.Gate(g)
	if err != nil {
		return engine.Request{}, err
	}
	spec.Gate = gate
	return engine.Request{Spec: spec, Door: "acp", Keep: true}, nil
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
	entry, err := Store(s.opts.Config).Get(ctx, id)
	if err == nil && entry.ID != id {
		err = &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no session " + id}
	}
	if err != nil {
		return err
	}
	return s.Engine.Delete(ctx, id)
}

func (s acpService) Models(ctx context.Context) ([]bridge.Model, error) { return s.Engine.Models(ctx) }

func (s acpService) Login(ctx context.Context) error {
	status, err := s.Engine.Status(ctx)
	if err == nil && (!status.Authenticated || s.Answers.Kind == AnswersRehearsal) {
		err = &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "nobody is logged in to GitHub Copilot",
			Remedy: "run `copilot login` in a terminal, or set COPILOT_GITHUB_TOKEN, and start this agent again"}
	}
	return err
}

// acpSession is a session of the engine with its guard.
type acpSession struct {
	*engine.Session
	gate consultant
}

// consultant is a guard that judges the reading of a file by somebody else.
type consultant interface {
	Before(ctx context.Context, call bridge.ToolCall) bridge.Decision
	Failed(ctx context.Context, call bridge.ToolCall, message string)
	Reveal(ctx context.Context, call bridge.ToolCall, texts ...*string) (int, error)
}

func guarded(r engine.Request, s *engine.Session, err error) (acp.Session, error) {
	if err != nil {
		return nil, err
	}
	gate, ok := r.Spec.Gate.(consultant)
	if !ok {
		return nil, errors.Join(&bridge.Error{Code: bridge.CodeInternal, Message: "the guard cannot judge what a client reads"}, s.Close(context.Background()))
	}
	return acpSession{s, gate}, nil
}

func (s acpSession) Consult(ctx context.Context, path string, read func(context.Context) (string, error)) (string, error) {
	call := bridge.ToolCall{Name: "view", Args: map[string]any{"path": path}}
	if d := s.gate.Before(ctx, call); d.Verdict != bridge.Allow {
		return "", &bridge.Error{Code: bridge.CodeDenied, Message: d.Reason}
	}
	text, err := read(ctx)
	if err != nil {
		s.gate.Failed(ctx, call, err.Error())
		return "", err
	}
	_, err = s.gate.Reveal(ctx, call, &text)
	return text, err
}
