package sdk

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// inUseWithin bounds the wait for another runtime to release a session.
const inUseWithin = 2 * time.Second

// session is a bridge.Session on one process of a host. When that process
// dies or is replaced the session is useless; Agent.Resume makes a new
// one.
type session struct {
	*common.Base
	host *host
	proc *process
	sdk  *copilot.Session
	tr   *translator

	reach *reach // of the SDK's client to this session, until it has left

	resumed chan bool // whether the session was open elsewhere when it was resumed

	wall   wall
	grants grants
	agents subagents

	claimReleased atomic.Bool // the claim on the stored session was released
	loaded        atomic.Bool // the first turn has waited for MCP servers
	ending        atomic.Bool // the turn is being aborted; its events say nothing

	leaving sync.Mutex // held while the session is disconnected
	left    bool       // it has been, or is given up; guarded by leaving

	mu        sync.Mutex
	users     int    // turns and other requests under way, see enter
	uses      int    // of all times
	suspended bool   // it leaves its runtime, which is being replaced
	turn      *turn  // nil between turns
	model     string // in use, as far as the runtime has told
	mode      string // as the runtime has it; "" if that is not known

	// Of the conversation, for Reset.
	firstMessageID   string // event id of the first user message
	mayHaveEarlier   bool   // there may be messages before it
	storedEvents     int    // events from it on that the runtime stores
	resetUnsafe      bool   // a reset may have to remove more than these
	abortUnconfirmed bool   // an aborted turn may still be running
}

func newSession(h *host, p *process, spec bridge.SessionSpec) *session {
	s := &session{Base: common.New("", spec), host: h, proc: p, tr: newTranslator(h), reach: &reach{}, resumed: make(chan bool, 1)}
	s.tr.agents = &s.agents
	s.tr.own, s.tr.account = spec.Provider, p.account.Load
	s.reach.session.Store(s)
	return s
}

// wholeResult is a tool's result that the model gets as it is, however long.
// By default the runtime writes a long one to a file and shows its beginning.
type wholeResult struct {
	rpc.ExternalToolTextResultForLlm
	SkipLargeOutput bool `json:"skipLargeOutputProcessing"`
}

func (s *session) Resolve(ctx context.Context, requestID string, result bridge.ToolResult) error {
	whole := &wholeResult{SkipLargeOutput: true}
	whole.TextResultForLlm = result.Text
	if result.Failed {
		kind := "failure"
		whole.ResultType, whole.Error = &kind, &result.Text
	}
	req := &rpc.HandlePendingToolCallRequest{RequestID: requestID, Result: whole}
	res, err := s.sdk.RPC.Tools.HandlePendingToolCall(ctx, req)
	if err != nil {
		return s.host.explain(err, "hand over a tool's result")
	}
	if res != nil && !res.Success {
		return common.NoCall(requestID)
	}
	return nil
}

func (s *session) SetModel(ctx context.Context, model, effort string) error {
	exit, err := s.enter()
	if err != nil {
		return err
	}
	defer exit()
	opts := &copilot.SetModelOptions{}
	if effort != "" {
		opts.ReasoningEffort = &effort
	}
	return s.host.explain(s.sdk.SetModel(ctx, model, opts), "switch the model to "+model)
}

// ModelInUse is the model that answers, as far as the runtime has told.
func (s *session) ModelInUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model
}

// noteModel takes note of the model. The session's lock is held.
func (s *session) noteModel(e copilot.SessionEvent) {
	switch d := e.Data.(type) {
	case *rpc.SessionStartData:
		s.model = cmp.Or(str(d.SelectedModel), s.model)
	case *rpc.SessionResumeData:
		s.model = cmp.Or(str(d.SelectedModel), s.model)
	case *rpc.SessionModelChangeData:
		s.model = d.NewModel
	}
}

// History replays the stored events through the same translation as a turn.
func (s *session) History(ctx context.Context) ([]bridge.Event, error) {
	exit, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer exit()
	stored, err := s.sdk.GetEvents(ctx)
	if err != nil {
		return nil, s.host.explain(err, "read the session's history")
	}
	tr := newTranslator(s.host)
	tr.own = s.Spec.Provider
	var out []bridge.Event
	for _, e := range stored {
		tr.translate(e, func(ev bridge.Event) { out = append(out, ev) })
	}
	if s.Spec.Profile == bridge.ProfileAgent {
		// The list of steps is not among the events; this is how it stands.
		if steps := s.steps(ctx); len(steps) > 0 {
			out = append(out, bridge.PlanChanged{Entries: steps})
		}
	}
	return out, nil
}

// Close releases the session. Its stored state stays.
func (s *session) Close(ctx context.Context) error {
	err := s.disconnect(ctx)
	if err == nil && s.stored() {
		err = s.host.agent.notes.remove(s.ID())
	}
	return err
}

// disconnect leaves the session and gives the claim on it back.
func (s *session) disconnect(ctx context.Context) error {
	s.MarkClosed()
	err := s.leave(ctx)
	if s.stored() && s.claimReleased.CompareAndSwap(false, true) {
		err = errors.Join(err, s.host.agent.release(s.ID()))
	}
	return err
}

// leave disconnects the session, which has the runtime write it down.
func (s *session) leave(ctx context.Context) error {
	s.leaving.Lock()
	defer s.leaving.Unlock()
	if s.left {
		return nil
	}
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t != nil {
		s.abortTurn(t)
	}
	s.Stop()
	s.endShells(ctx)
	s.left = true
	gone := s.proc.detach(s)
	defer s.proc.nudge()
	done := make(chan error, 1)
	go func() { // returns when the process ends at the latest
		err := s.sdk.Disconnect()
		s.reach.session.Store(nil)
		gone()
		done <- err
	}()
	select {
	case err := <-done:
		err = errors.Join(err, s.removeSandboxDir())
		if err = s.host.explain(err, "close the session"); bridge.CodeOf(err) == bridge.CodeCrashed {
			return nil // there is nothing left to close
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reset forgets the conversation but keeps the session, which is much cheaper
// than a new one. Nothing said before is sent to the model again. It must not
// run beside a turn, and it fails rather than leave anything of a chat behind.
func (s *session) Reset(ctx context.Context) error {
	exit, err := s.enter()
	if err != nil {
		return err
	}
	defer exit()
	s.mu.Lock()
	first, older, kept, doubt := s.firstMessageID, s.mayHaveEarlier, s.storedEvents, s.resetUnsafe
	blocked := s.turn != nil || s.abortUnconfirmed
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
	if s.Spec.Profile == bridge.ProfileChat && (older || doubt || removed != kept) {
		if err := s.empty(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.firstMessageID, s.mayHaveEarlier, s.storedEvents, s.resetUnsafe = "", false, 0, false
	s.mu.Unlock()
	return nil
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
	if s.Spec.Gate != nil {
		text, err := s.Spec.Gate.Prompt(ctx, p.Text)
		if err != nil {
			return err
		}
		p.Text = text
	}
	p.ResponseFormat = nil // the turn's own holds
	req, err := s.request(p)
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
func (s *session) Current() bool {
	s.host.agent.Logins()
	return s.host.present.Load() == s.proc
}

// Remove closes the session and deletes its stored state. If the runtime
// cannot do that, or not in time, it is done when the runtime has
// ended.
func (s *session) Remove(ctx context.Context) error {
	err := s.remove(ctx)
	if err == nil || ctx.Err() == nil && bridge.CodeOf(err) != bridge.CodeCrashed {
		return err
	}
	if s.proc.removeAtExit(s.ID()) {
		return nil
	}
	return s.proc.erase(s.ID())
}

func (s *session) remove(ctx context.Context) error {
	id := s.ID()
	if err := s.disconnect(ctx); err != nil {
		return err
	}
	proc := s.proc
	s.host.mu.Lock()
	if p := s.host.proc; p != nil && !s.host.dead {
		proc = p // its own may have died or ended with it; any can delete
		defer s.host.hold(p)()
	}
	s.host.mu.Unlock()
	err := proc.call(func(c *copilot.Client) error { return c.DeleteSession(ctx, id) })
	if err == nil || notFound(err) {
		return s.host.agent.notes.remove(id)
	}
	return s.host.noticed(proc, s.host.explain(err, "delete session "+id))
}

// removeAtExit has the stored state of a session removed when the process has ended. It
// says false if it has.
func (p *process) removeAtExit(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.doomed = append(p.doomed, id)
	}
	return !p.ended
}

// removeDoomed removes the stored state of doomed sessions.
func (p *process) removeDoomed() error {
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
	if err := checkID(id); err != nil {
		return err
	}
	return os.RemoveAll(stateOf(p.home, id))
}

// stateOf is where a runtime with this home stores a session.
func stateOf(home, id string) string { return filepath.Join(home, "session-state", id) }

// Commands lists the runtime's slash commands, and the user's skills, which
// are called the same way.
func (s *session) Commands(ctx context.Context) ([]bridge.Command, error) {
	list, err := s.sdk.RPC.Commands.List(ctx)
	if err != nil {
		return nil, s.host.explain(err, "list the commands")
	}
	out := make([]bridge.Command, 0, len(list.Commands))
	for _, c := range list.Commands {
		b := bridge.Command{Name: c.Name, Description: c.Description, Builtin: c.Kind == rpc.SlashCommandKindBuiltin}
		if c.Input != nil {
			b.Hint = c.Input.Hint
		}
		out = append(out, b)
	}
	return out, nil
}

// Invoke runs a slash command. Like a prompt it passes the gate first.
func (s *session) Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error) {
	exit, err := s.enter()
	if err != nil {
		return bridge.CommandResult{}, err
	}
	defer exit()
	if s.Spec.Gate != nil {
		text, err := s.Spec.Gate.Prompt(ctx, strings.TrimSpace("/"+name+" "+input))
		if err != nil {
			return bridge.CommandResult{}, err
		}
		name, input, _ = strings.Cut(strings.TrimPrefix(text, "/"), " ")
	}
	res, err := s.sdk.RPC.Commands.Invoke(ctx, &rpc.CommandsInvokeRequest{Name: name, Input: &input})
	if err != nil {
		return bridge.CommandResult{}, s.host.explain(err, "run the command /"+name)
	}
	return invoked(name, res)
}

func invoked(name string, res rpc.SlashCommandInvocationResult) (bridge.CommandResult, error) {
	mode := func(m *rpc.SessionMode) string {
		if m == nil {
			return ""
		}
		return string(*m)
	}
	switch r := res.(type) {
	case *rpc.SlashCommandTextResult:
		return bridge.CommandResult{Text: r.Text}, nil
	case *rpc.SlashCommandCompletedResult:
		return bridge.CommandResult{Text: str(r.Message), Mode: mode(r.Mode)}, nil
	case *rpc.SlashCommandAgentPromptResult:
		return bridge.CommandResult{Text: str(r.Notice), Prompt: r.Prompt, Mode: mode(r.Mode)}, nil
	case *rpc.SlashCommandAddTimelineEntryResult:
		return bridge.CommandResult{Text: r.Entry.Text}, nil
	case *rpc.SlashCommandSelectSubcommandResult:
		lines := []string{r.Title}
		for _, o := range r.Options {
			lines = append(lines, "/"+r.Command+" "+o.Name+": "+o.Description)
		}
		return bridge.CommandResult{Text: strings.Join(lines, "\n")}, nil
	default:
		return bridge.CommandResult{}, &bridge.Error{Code: bridge.CodeUnsupported, Message: "/" + name + " needs Copilot's own terminal"}
	}
}

// planWithin bounds how long a turn waits to hear the steps of its plan.
const planWithin = 2 * time.Second

// steps asks for the list that the agent keeps of what it means to do. A plan
// that cannot be read is not worth failing a turn for.
func (s *session) steps(ctx context.Context) []bridge.PlanEntry {
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	list, err := s.sdk.RPC.Plan.ReadSqlTodos(ctx)
	if err != nil {
		s.host.opts.Logger.Debug("session.plan_not_read", "session", s.ID(), "error", err)
		return nil
	}
	var out []bridge.PlanEntry
	for _, r := range list.Rows {
		text := str(r.Title)
		if text == "" {
			text = str(r.Description)
		}
		if text == "" {
			text = str(r.ID)
		}
		out = append(out, bridge.PlanEntry{Text: text, Status: stepStatus(str(r.Status))})
	}
	return out
}

// stepStatus reads what the model wrote into the list, which binds it to no
// words.
func stepStatus(s string) bridge.StepStatus {
	switch s {
	case "in_progress", "in-progress", "running", "active":
		return bridge.StepRunning
	case "done", "completed", "complete":
		return bridge.StepDone
	default:
		return bridge.StepPending
	}
}
