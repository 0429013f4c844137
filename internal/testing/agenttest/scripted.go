package agenttest

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// Scripted is an agent without any program behind it. It follows the same
// directives as the demo model (text, chunks, usage, tool, next, delay,
// silence, status) and adds `crash`, which ends its imagined runtime. All its
// waiting is on timers and contexts, so it works in a synctest bubble.
type Scripted struct {
	mu      sync.Mutex
	closed  bool
	last    int
	stored  map[string][]bridge.Event
	opened  int
	resumed int
	sent    map[string][]string // prompts and steering, by session
}

// NewScripted returns an agent without sessions.
func NewScripted() *Scripted {
	return &Scripted{stored: map[string][]bridge.Event{}, sent: map[string][]string{}}
}

// Name is "scripted".
func (a *Scripted) Name() string { return "scripted" }

// Counts says how many sessions were opened and resumed.
func (a *Scripted) Counts() (opened, resumed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opened, a.resumed
}

// Sent returns what every session was told, by its id.
func (a *Scripted) Sent() map[string][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string][]string{}
	for id, prompts := range a.sent {
		out[id] = append([]string(nil), prompts...)
	}
	return out
}

func (a *Scripted) heard(id, prompt string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent[id] = append(a.sent[id], prompt)
}

// Open makes a session.
func (a *Scripted) Open(_ context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the agent is closed"}
	}
	a.opened++
	a.last++
	id := spec.ID
	if id == "" {
		id = fmt.Sprintf("scripted-%d", a.last)
	}
	a.stored[id] = nil
	return newScriptedSession(a, id, spec), nil
}

// Resume resumes a session.
func (a *Scripted) Resume(_ context.Context, id string, spec bridge.SessionSpec) (bridge.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.stored[id]; !ok {
		return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "no session " + id}
	}
	a.resumed++
	return newScriptedSession(a, id, spec), nil
}

// List returns the sessions.
func (a *Scripted) List(context.Context) ([]bridge.SessionInfo, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []bridge.SessionInfo
	for id := range a.stored {
		out = append(out, bridge.SessionInfo{ID: id})
	}
	return out, nil
}

// Delete removes a session.
func (a *Scripted) Delete(_ context.Context, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.stored[id]; !ok {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "no session " + id}
	}
	delete(a.stored, id)
	return nil
}

// Close refuses whatever comes later.
func (a *Scripted) Close(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return nil
}

func (a *Scripted) store(id string, ev bridge.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stored[id] = append(a.stored[id], ev)
}

type scriptedSession struct {
	*session.Base
	agent *Scripted

	mu     sync.Mutex
	dead   bool
	parked map[string]chan bridge.ToolResult
	calls  int
}

func newScriptedSession(a *Scripted, id string, spec bridge.SessionSpec) *scriptedSession {
	return &scriptedSession{Base: session.New(id, spec), agent: a, parked: map[string]chan bridge.ToolResult{}}
}

func (s *scriptedSession) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return s.Run(ctx, p, func(_ context.Context, t *session.Turn, p bridge.Prompt) error {
		s.mu.Lock()
		dead := s.dead
		s.mu.Unlock()
		if dead {
			return crashed()
		}
		s.agent.heard(s.ID(), p.Text)
		if err := (&scriptedTurn{Turn: t, session: s}).run(strings.Split(p.Text, "\n")); err != nil {
			return err
		}
		return t.End(bridge.EndDone)
	})
}

func crashed() error {
	return &bridge.Error{Code: bridge.CodeCrashed, Message: "the scripted runtime exited"}
}

func (s *scriptedSession) Resolve(_ context.Context, id string, r bridge.ToolResult) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.parked[id]
	if !ok {
		return session.NoCall(id)
	}
	delete(s.parked, id)
	ch <- r
	return nil
}

func (s *scriptedSession) SetModel(context.Context, string, string) error { return nil }

func (s *scriptedSession) History(context.Context) ([]bridge.Event, error) {
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	return append([]bridge.Event(nil), s.agent.stored[s.ID()]...), nil
}

// Reset forgets the conversation.
func (s *scriptedSession) Reset(context.Context) error {
	if s.Running() != nil {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "the session is busy"}
	}
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	s.agent.stored[s.ID()] = nil
	return nil
}

// Steer is only recorded.
func (s *scriptedSession) Steer(_ context.Context, p bridge.Prompt) error {
	if s.Running() == nil {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "no turn is running"}
	}
	s.agent.heard(s.ID(), p.Text)
	return nil
}

// Current says whether the imagined runtime lives.
func (s *scriptedSession) Current() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead && s.Context().Err() == nil
}
