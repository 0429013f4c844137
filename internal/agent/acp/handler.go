package acp

import (
	"context"
	"encoding/json"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

// handler serves the agent's requests.
type handler struct{ link *link }

func (h handler) Notification(method string, params json.RawMessage) {
	if method != acpwire.NotifyUpdate {
		return
	}
	var n acpwire.SessionNotification
	if err := json.Unmarshal(params, &n); err != nil {
		h.link.opts.Logger.Debug("an update is not understood", "error", err)
		return
	}
	h.link.update(n)
}

func (h handler) Request(ctx context.Context, method string, params json.RawMessage) func() (any, error) {
	switch method {
	case acpwire.MethodRequestPermission:
		return serve(h, params, func(s *session, p acpwire.PermissionRequest) func() (any, error) { return s.permission(ctx, p) },
			func(p acpwire.PermissionRequest) string { return p.SessionID })
	case acpwire.MethodReadTextFile:
		return later(h, params, func(s *session, p acpwire.ReadTextFileRequest) (any, error) { return s.readFile(ctx, p) },
			func(p acpwire.ReadTextFileRequest) string { return p.SessionID })
	case acpwire.MethodWriteTextFile:
		return later(h, params, func(s *session, p acpwire.WriteTextFileRequest) (any, error) { return s.writeFile(ctx, p) },
			func(p acpwire.WriteTextFileRequest) string { return p.SessionID })
	case acpwire.MethodTerminalCreate:
		return later(h, params, func(s *session, p acpwire.CreateTerminalRequest) (any, error) { return s.createTerminal(ctx, p) },
			func(p acpwire.CreateTerminalRequest) string { return p.SessionID })
	case acpwire.MethodTerminalOutput, acpwire.MethodTerminalWait, acpwire.MethodTerminalKill, acpwire.MethodTerminalRelease:
		return later(h, params, func(s *session, p acpwire.TerminalRef) (any, error) { return s.terminal(ctx, method, p.TerminalID) },
			func(p acpwire.TerminalRef) string { return p.SessionID })
	case acpwire.MethodElicit:
		return later(h, params, func(s *session, p acpwire.ElicitRequest) (any, error) { return s.elicit(ctx, p) },
			func(p acpwire.ElicitRequest) string { return p.SessionID })
	}
	return nil
}

// serve decodes a request and finds its session, at once and in order.
func serve[P any](h handler, params json.RawMessage, f func(*session, P) func() (any, error), id func(P) string) func() (any, error) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return func() (any, error) {
			return nil, acpwire.Errorf(acpwire.CodeInvalidParams, "the parameters are not understood: %s", err)
		}
	}
	s := h.link.session(id(p))
	if s == nil {
		return func() (any, error) {
			return nil, acpwire.Errorf(acpwire.CodeResourceNotFound, "there is no session %s", id(p))
		}
	}
	return f(s, p)
}

// later is serve for requests whose order does not matter.
func later[P any](h handler, params json.RawMessage, f func(*session, P) (any, error), id func(P) string) func() (any, error) {
	return serve(h, params, func(s *session, p P) func() (any, error) {
		return func() (any, error) { return f(s, p) }
	}, id)
}
