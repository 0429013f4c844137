package acp

import (
	"context"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// List returns the sessions that the agent has stored.
func (a *Agent) List(ctx context.Context) ([]bridge.SessionInfo, error) {
	l, err := a.ensure(ctx)
	if err != nil {
		return nil, err
	}
	if l.init.Capabilities.Session.List == nil {
		return nil, unsupported("list its sessions")
	}
	var out []bridge.SessionInfo
	req := acpwire.ListSessionsRequest{}
	for range 1000 { // an agent that never ends its pages is not followed for ever
		var resp acpwire.ListSessionsResponse
		if err := l.call(ctx, acpwire.MethodSessionList, req, &resp); err != nil {
			return nil, l.explain(err, "list sessions")
		}
		for _, s := range resp.Sessions {
			info := bridge.SessionInfo{ID: s.SessionID, Title: s.Title, WorkingDir: s.Cwd}
			if t, err := time.Parse(time.RFC3339, s.UpdatedAt); err == nil {
				info.Modified = t
			}
			out = append(out, info)
		}
		if resp.NextCursor == "" || resp.NextCursor == req.Cursor {
			break
		}
		req.Cursor = resp.NextCursor
	}
	slices.SortStableFunc(out, func(x, y bridge.SessionInfo) int { return y.Modified.Compare(x.Modified) })
	return out, nil
}

// Delete removes a stored session, where the agent can.
func (a *Agent) Delete(ctx context.Context, id string) error {
	l, err := a.ensure(ctx)
	if err != nil {
		return err
	}
	if l.init.Capabilities.Session.Delete == nil {
		return unsupported("delete its sessions")
	}
	return l.explain(l.call(ctx, acpwire.MethodSessionDelete, acpwire.SessionRef{SessionID: id}, nil), "delete session "+id)
}

// Models lists what can answer: the provider's model if one is configured,
// else what the agent lets choose.
func (a *Agent) Models(ctx context.Context) ([]bridge.Model, error) {
	if a.opts.Copilot && a.opts.Provider != nil {
		return []bridge.Model{{ID: a.opts.Model, Name: a.opts.Model}}, nil
	}
	if err := a.probe(ctx, false); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.models), nil
}

// Status says which agent runs and whether it opens sessions.
func (a *Agent) Status(ctx context.Context) (bridge.AgentStatus, error) {
	l, err := a.ensure(ctx)
	if err != nil {
		return bridge.AgentStatus{}, err
	}
	out := bridge.AgentStatus{Agent: a.Name(), ProtocolVersion: l.init.ProtocolVersion, AuthType: "agent"}
	if i := l.init.AgentInfo; i != nil {
		out.RuntimeVersion = i.Name + " " + i.Version
	}
	if a.opts.Copilot && a.opts.Provider != nil {
		out.AuthType, out.Host = "provider", a.opts.Provider.BaseURL
	}
	err = a.probe(ctx, true)
	if bridge.CodeOf(err) == bridge.CodeUnauthenticated {
		out.Message = err.Error() + "; " + bridge.AsError(err).Remedy
		return out, nil
	}
	out.Authenticated = err == nil
	return out, err
}

// probe opens and closes a session, which is the one way to learn whether
// there is a login. It is done once a link, unless known is enough.
func (a *Agent) probe(ctx context.Context, known bool) error {
	l, err := a.ensure(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	done := a.loggedIn == l && (known || a.models != nil)
	a.mu.Unlock()
	if done {
		return nil
	}
	dir := a.opts.Home
	if dir == "" {
		dir = "/"
	}
	s, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir})
	if err != nil {
		return err
	}
	return s.Close(ctx)
}

// Ping starts the agent if need be. The protocol has no sign of life of its
// own; an answer to initialize is one.
func (a *Agent) Ping(ctx context.Context) error {
	_, err := a.ensure(ctx)
	return err
}
