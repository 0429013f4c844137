package sdk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Reset forgets the conversation but keeps the session, which is much cheaper
// than a new one. Nothing said before is sent to the model again. It must not
// run beside a turn, and it fails rather than leave anything of a chat behind.
func (s *session) Reset(ctx context.Context) error {
	s.mu.Lock()
	first, older, kept, doubt := s.first, s.older, s.kept, s.doubt
	blocked := s.turn != nil || s.loose
	s.mu.Unlock()
	if blocked {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "a turn of the session may still be under way"}
	}
	if older {
		var err error
		if first, err = s.firstStored(ctx); err != nil {
			return err
		}
	}
	removed := 0
	if first != "" {
		res, err := s.sdk.RPC.History.Truncate(ctx, &rpc.HistoryTruncateRequest{EventID: first})
		if err != nil {
			return s.host.explain(err, "reset the session")
		}
		if res == nil || res.EventsRemoved < 1 {
			return &bridge.Error{Code: bridge.CodeConflict, Message: "the runtime removed nothing of the session"}
		}
		removed = int(res.EventsRemoved)
	}
	if s.spec.Profile == bridge.ProfileChat && (older || doubt || removed != kept) {
		if err := s.empty(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.first, s.older, s.kept, s.doubt = "", false, 0, false
	s.mu.Unlock()
	return nil
}

// note takes down what a reset has to know of an event: where the conversation
// begins, and how many events the runtime stores from there on. If it says
// that it has removed just as many, nothing is left, and it need not be asked
// again, which would be one request in three of a short chat.
// s.mu is held.
func (s *session) note(e copilot.SessionEvent) {
	if _, ok := e.Data.(*rpc.UserMessageData); ok && s.first == "" && e.AgentID == nil {
		s.first = e.ID
	}
	switch {
	case e.Ephemeral != nil && *e.Ephemeral:
	case s.first != "":
		s.kept++
	case !blank[e.Type()]:
		s.doubt = true
	}
}

// blank are the events that an empty chat may hold.
var blank = map[copilot.SessionEventType]bool{
	copilot.SessionEventTypeSessionStart: true, copilot.SessionEventTypeSessionModelChange: true, copilot.SessionEventTypeAbort: true,
}

// empty asks the runtime whether anything is left of a conversation.
func (s *session) empty(ctx context.Context) error {
	events, err := s.sdk.GetEvents(ctx)
	if err != nil {
		return s.host.explain(err, "read the session's history")
	}
	for _, e := range events {
		if !blank[e.Type()] {
			return &bridge.Error{Code: bridge.CodeConflict, Message: "after its reset the session still holds an event " + string(e.Type())}
		}
	}
	return nil
}

// firstStored finds the first message of a session that was resumed.
func (s *session) firstStored(ctx context.Context) (string, error) {
	events, err := s.sdk.GetEvents(ctx)
	if err != nil {
		return "", s.host.explain(err, "read the session's history")
	}
	for _, e := range events {
		if _, ok := e.Data.(*rpc.UserMessageData); ok && e.AgentID == nil {
			return e.ID, nil
		}
	}
	return "", nil
}

// Steer says something to the turn that is running: the model hears it with
// its next request.
func (s *session) Steer(ctx context.Context, p bridge.Prompt) error {
	s.mu.Lock()
	running := s.turn != nil
	s.mu.Unlock()
	if !running {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "no turn is running in this session"}
	}
	if s.spec.Gate != nil {
		text, err := s.spec.Gate.Prompt(ctx, p.Text)
		if err != nil {
			return err
		}
		p.Text = text
	}
	p.ResponseFormat = nil // the turn's own holds
	req, err := sendRequest(p)
	if err != nil {
		return err
	}
	mode := rpc.SendModeImmediate
	req.Mode, req.Wait = &mode, nil
	_, err = s.sdk.RPC.Send(ctx, req)
	return s.host.explain(err, "add to the turn")
}

// Current says whether the session's runtime lives and is the one in which
// new sessions are opened.
func (s *session) Current() bool { return s.host.agent.current(s.host, s.proc) }

// Crowded says that the session's runtime has more than its share of the
// sessions: one that is not needed should be opened anew elsewhere.
func (s *session) Crowded() bool { return s.host.agent.crowded(s.host) }

// Aside says that the session's runtime is not the profile's first.
func (s *session) Aside() bool { return s.host.agent.aside(s.host) }

// Remove closes the session and deletes what is stored of it. If the runtime
// cannot do that any more, or not in time, it is done when the runtime has
// ended.
func (s *session) Remove(ctx context.Context) error {
	err := s.remove(ctx)
	if err == nil || ctx.Err() == nil && bridge.CodeOf(err) != bridge.CodeCrashed {
		return err
	}
	if s.proc.doom(s.ID()) {
		return nil
	}
	return s.proc.erase(s.ID())
}

func (s *session) remove(ctx context.Context) error {
	id := s.ID()
	leave := s.host.agent.stay(s.host)
	defer leave(ctx)
	if err := s.Close(ctx); err != nil {
		return err
	}
	proc := s.proc
	s.host.mu.Lock()
	if p := s.host.proc; p != nil && !s.host.dead {
		proc = p // its own may have died or ended with it; any can delete
		defer s.host.hold(ctx, p)()
	}
	s.host.mu.Unlock()
	err := proc.call(func(c *copilot.Client) error { return c.DeleteSession(ctx, id) })
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "not found") {
		return nil
	}
	return s.host.noticed(proc, s.host.explain(err, "delete session "+id))
}

// doom has what is stored of a session removed when the process has ended. It
// says false if it has.
func (p *process) doom(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.doomed = append(p.doomed, id)
	}
	return !p.ended
}

// bury removes what is stored of doomed sessions.
func (p *process) bury() error {
	p.mu.Lock()
	p.ended = true
	doomed := p.doomed
	p.doomed = nil
	p.mu.Unlock()
	var errs []error
	for _, id := range doomed {
		errs = append(errs, p.erase(id))
	}
	return errors.Join(errs...)
}

// erase removes the directory in which a runtime that has ended has stored a
// session.
func (p *process) erase(id string) error {
	if id == "" || id != filepath.Base(id) || !filepath.IsLocal(id) {
		return &bridge.Error{Code: bridge.CodeInternal, Message: "a session has the odd id " + id}
	}
	return os.RemoveAll(stateOf(p.home, id))
}

// stateOf is where a runtime with this home stores a session.
func stateOf(home, id string) string { return filepath.Join(home, "session-state", id) }
