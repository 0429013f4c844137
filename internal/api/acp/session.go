package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

// session is an open session of a client.
type session struct {
	door *door
	cwd  string
	live Session // set before the session is shared

	mu       sync.Mutex
	turns    []*turn // the running one, and those that wait for it
	closed   bool
	mode     string // of bridge.Prompt
	model    string
	effort   string
	models   []bridge.Model
	commands map[string]bool // the slash commands that were offered
	named    bool            // the client knows a title
	warned   bool            // the client knows whose the answers are
}

func newSession(d *door, cwd string) *session {
	return &session{door: d, cwd: cwd, commands: map[string]bool{}}
}

// update sends an update, and waits while the client does not read. It fails only
// if the client has left.
func (s *session) update(ctx context.Context, u acpwire.Update) error {
	// Events of a cancelled turn are sent too.
	return s.door.conn.Notify(context.WithoutCancel(ctx), acpwire.NotifyUpdate, acpwire.SessionNotification{SessionID: s.live.ID(), Update: u})
}

// errTurnCancelled is the cause of a turn's context when the client cancels.
var errTurnCancelled = &bridge.Error{Code: bridge.CodeCanceled, Message: "the client cancelled the turn"}

// prompt begins a turn at once, so that a cancellation after it finds the turn.
func (d *door) prompt(ctx context.Context, params json.RawMessage) func() (any, error) {
	p, err := decode[acpwire.PromptRequest](params)
	var s *session
	if err == nil {
		s, err = d.session(p.SessionID)
	}
	var t *turn
	if err == nil {
		t, err = s.begin(ctx)
	}
	if err != nil {
		return func() (any, error) { return nil, wireError(err) }
	}
	return func() (any, error) {
		defer s.finish(t)
		if !t.awaitBefore() {
			out, err := t.stopped(context.Cause(t.ctx))
			return out, wireError(err)
		}
		out, err := s.run(t, p.Prompt)
		return out, wireError(err)
	}
}

func errBusy(id string) error {
	return &bridge.Error{Code: bridge.CodeConflict, Message: "busy: a turn is already running in session " + id,
		Remedy: "wait for its end or cancel it"}
}

// maxTurns is how many prompts of a session may run and wait.
const maxTurns = 16

// begin puts a turn behind those that the client has asked for before.
func (s *session) begin(ctx context.Context) (*turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.turns)
	switch {
	case s.closed:
		return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "the session is closed"}
	case n == maxTurns:
		return nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("busy: %d prompts of session %s wait already", n-1, s.live.ID()),
			Remedy: "wait for their answers or cancel them"}
	}
	t := newTurn(ctx, s)
	if n > 0 {
		t.before = s.turns[n-1].over
	}
	s.turns = append(s.turns, t)
	return t, nil
}

func (s *session) finish(t *turn) {
	t.cancel(nil)
	if t.before != nil {
		<-t.before // a turn that was cancelled while it waited lets none pass
	}
	s.mu.Lock()
	s.turns = slices.DeleteFunc(s.turns, func(other *turn) bool { return other == t })
	s.mu.Unlock()
	close(t.over)
}

// running is the turn that runs, or nil.
func (s *session) running() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		return nil
	}
	return s.turns[0]
}

// cancel ends the running turn and those that wait; without one it does nothing.
func (s *session) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelAll()
}

// cancelAll is cancel for callers that hold the mutex.
func (s *session) cancelAll() {
	for _, t := range s.turns {
		t.cancel(errTurnCancelled)
	}
}

// end cancels the turns, waits for them, and closes the session.
func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	turns := slices.Clone(s.turns)
	s.cancelAll()
	s.mu.Unlock()
	for _, t := range turns {
		select {
		case <-t.over:
		case <-ctx.Done():
		}
	}
	return s.live.Close(ctx)
}

// run runs a turn from the client's prompt to the reason why it ended.
func (s *session) run(t *turn, blocks []acpwire.ContentBlock) (*acpwire.PromptResponse, error) {
	ctx := t.ctx
	p, err := s.read(ctx, blocks)
	if err != nil {
		return t.stopped(err)
	}
	s.greet(ctx, p.Text)
	command, input, ok := s.command(p.Text)
	if ok {
		again, err := s.invoke(ctx, command, input, &p)
		if err != nil {
			return t.stopped(err)
		}
		if !again {
			return &acpwire.PromptResponse{StopReason: acpwire.StopEndTurn}, nil
		}
	}
	if p.Mode == "" {
		s.mu.Lock()
		p.Mode = s.mode
		s.mu.Unlock()
	}
	var failure error
	for ev, err := range s.live.Send(ctx, p) {
		if err != nil {
			failure = err
			break
		}
		if err := t.see(ctx, ev); err != nil {
			failure = err // the client has gone; leaving the loop aborts the turn
			break
		}
	}
	if err := t.close(ctx); err != nil && failure == nil {
		failure = err
	}
	return t.stopped(failure)
}

// greet tells a client, before the first answer, what it should know.
func (s *session) greet(ctx context.Context, text string) {
	s.mu.Lock()
	named, warned := s.named, s.warned
	s.named, s.warned = true, true
	s.mu.Unlock()
	var errs []error
	if !named {
		errs = append(errs, s.update(ctx, &acpwire.InfoUpdate{Type: acpwire.UpdateInfo, Title: s.live.TitleOf(text), UpdatedAt: time.Now().UTC().Format(time.RFC3339)}))
	}
	if notice := s.live.Opened().Notice; !warned && notice != "" {
		errs = append(errs, s.tell(ctx, "warning", notice))
	}
	if err := errors.Join(errs...); err != nil {
		s.door.opts.Logger.Debug("acp.update_not_sent", "error", err)
	}
}

// tell shows a notice, as a message if the client knows no notices.
func (s *session) tell(ctx context.Context, severity, text string) error {
	s.door.mu.Lock()
	shows := s.door.notices
	s.door.mu.Unlock()
	if shows {
		return s.update(ctx, &acpwire.Notice{Type: acpwire.UpdateNotice, Severity: severity, Title: text})
	}
	if severity == "info" {
		return nil
	}
	return s.update(ctx, &acpwire.Chunk{Type: acpwire.UpdateAgentMessage, Content: acpwire.Text("> " + text + "\n\n")})
}

// replay sends the history of a session.
func (s *session) replay(ctx context.Context) error {
	events, err := s.live.History(ctx)
	if err != nil {
		return err
	}
	t := newTurn(ctx, s)
	defer t.cancel(nil)
	t.past = true
	for _, ev := range events {
		if err := t.see(ctx, ev); err != nil {
			return err
		}
	}
	return t.close(ctx)
}

// offered are Copilot's commands for clients, besides the user's skills. The others
// would change the policy's ground (allow-all, add-dir, cwd, sandbox), reach beyond
// the session (share, remote, plugin, mcp, every), need Copilot's terminal, or have
// a place in the protocol (model, autopilot). New ones need a decision first.
var offered = map[string]bool{
	"blame": true, "compact": true, "context": true, "env": true, "init": true, "plan": true, "research": true, "review": true,
	"security-review": true, "usage": true,
}

// announce sends the slash commands. A session works without them too.
func (s *session) announce(ctx context.Context) {
	list, err := s.live.Commands(ctx)
	if err != nil {
		s.door.opts.Logger.Warn("acp.commands_unknown", "error", err)
		return
	}
	u := &acpwire.Commands{Type: acpwire.UpdateCommands}
	known := map[string]bool{}
	for _, c := range list {
		if c.Builtin && !offered[c.Name] || known[c.Name] {
			continue
		}
		known[c.Name] = true
		w := acpwire.Command{Name: c.Name, Description: c.Description}
		if c.Hint != "" {
			w.Input = &acpwire.CommandInput{Hint: c.Hint}
		}
		u.Available = append(u.Available, w)
	}
	s.mu.Lock()
	s.commands = known
	s.mu.Unlock()
	if err := s.update(ctx, u); err != nil {
		s.door.opts.Logger.Debug("acp.update_not_sent", "error", err)
	}
}

var slash = regexp.MustCompile(`(?s)^/([A-Za-z][A-Za-z0-9_:.-]*)(?:\s+(.*))?$`)

// command finds the command of a prompt. Other prompts are for the model.
func (s *session) command(text string) (name, input string, ok bool) {
	m := slash.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return "", "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return m[1], m[2], s.commands[m[1]]
}

// invoke runs a command, and says whether it made a prompt for the model.
func (s *session) invoke(ctx context.Context, name, input string, p *bridge.Prompt) (again bool, err error) {
	r, err := s.live.Invoke(ctx, name, input)
	if err != nil {
		return false, err
	}
	if r.Text != "" {
		if err := s.update(ctx, &acpwire.Chunk{Type: acpwire.UpdateAgentMessage, Content: acpwire.Text(r.Text + "\n")}); err != nil {
			return false, err
		}
	}
	if _, known := modeOf(r.Mode); known {
		if err := s.enter(ctx, r.Mode); err != nil {
			return false, err
		}
	}
	p.Text, p.Mode = r.Prompt, ""
	return r.Prompt != "", nil
}
