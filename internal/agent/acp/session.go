package acp

import (
	"context"
	"errors"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// session is a bridge.Session on one link. When the link ends the session is
// dead too; Agent.Resume makes a new one.
type session struct {
	agent *Agent
	link  *link
	id    string
	spec  bridge.SessionSpec
	wg    sync.WaitGroup // judgements of calls that did not ask

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu        sync.Mutex
	turn      *turn           // nil between turns
	turnC     context.Context // what gates and persons of the running turn wait under
	quit      context.CancelFunc
	calls     map[string]*call
	terminals map[string]*terminal
	root      *os.Root // the working directory, when files are first served
	numbered  int      // of permission requests and terminals
	loading   bool     // updates are the history
	replay    []acpwire.Update
	history   []bridge.Event
	told      bool // the system text was sent
	modes     *acpwire.Modes
	baseMode  string
	options   []acpwire.ConfigOption
	counted   acpwire.Usage // of all turns so far, as the agent counts
	cost      float64
}

func newSession(a *Agent, l *link, id string, spec bridge.SessionSpec) *session {
	ctx, stop := context.WithCancel(context.Background())
	return &session{agent: a, link: l, id: id, spec: spec, ctx: ctx, stop: stop,
		calls: map[string]*call{}, terminals: map[string]*terminal{}}
}

func (s *session) ID() string { return s.id }

// hear takes an update. It runs on the connection's reader, so it only takes
// note; Send's goroutine does the rest.
func (s *session) hear(u acpwire.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.note(u)
	switch {
	case s.loading:
		s.replay = append(s.replay, u)
	case s.turn != nil:
		s.turn.push(item{update: u})
	}
}

// note keeps the state of the session. mu is held.
func (s *session) note(u acpwire.Update) {
	switch u := u.(type) {
	case *acpwire.ToolCall:
		s.noteCall(u)
	case *acpwire.CurrentMode:
		if s.modes != nil {
			s.modes.Current = u.ModeID
		}
		s.watchMode()
	case *acpwire.ConfigUpdate:
		s.options = u.ConfigOptions
		s.watchMode()
	}
}

// loaded makes a history of what a session that was loaded has replayed.
func (s *session) loaded() {
	s.mu.Lock()
	replay := s.replay
	s.replay, s.loading = nil, false
	s.mu.Unlock()
	var past []bridge.Event
	tr := newTranslator(s, func(ev bridge.Event) { past = append(past, ev) })
	tr.replaying = true
	for _, u := range replay {
		tr.update(u)
	}
	tr.finishMessage(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range past {
		s.remember(ev)
	}
	clear(s.calls) // of turns that are over
	s.told = true
}

// remember keeps what belongs into the history: whole messages, not their
// pieces. mu is held.
func (s *session) remember(ev bridge.Event) {
	switch ev.(type) {
	case bridge.MessageDone, bridge.ToolStarted, bridge.ToolFinished, bridge.PlanChanged, bridge.UserSaid:
		s.history = append(s.history, ev)
	default:
	}
}

func (s *session) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		if err := s.send(ctx, p, func(e bridge.Event) bool { return yield(e, nil) }); err != nil && !errors.Is(err, errReaderLeft) {
			yield(nil, err)
		}
	}
}

// errReaderLeft says that the range loop was left early: there is nobody to
// tell anything any more.
var errReaderLeft = errors.New("the reader left")

func (s *session) send(ctx context.Context, p bridge.Prompt, yield func(bridge.Event) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The turn before may have made such files, and sub-agents load them anew.
	if err := s.agent.loadable(s.spec); err != nil {
		return err
	}
	if s.spec.Gate != nil {
		text, err := s.spec.Gate.Prompt(ctx, p.Text)
		if err != nil {
			return err
		}
		p.Text = text
	}
	blocks, err := s.blocks(p)
	if err != nil {
		return err
	}
	turnC, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := s.begin(turnC, cancel)
	if err != nil {
		return err
	}
	defer s.finish()
	if err := s.setMode(ctx, p.Mode); err != nil {
		return err
	}
	s.mu.Lock()
	s.told = true
	s.history = append(s.history, bridge.UserSaid{Text: p.Text})
	s.mu.Unlock()

	began := time.Now()
	callC, cancelCall := context.WithCancel(context.WithoutCancel(ctx))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// The answer comes when the turn is over, and an error at once if the
		// agent dies.
		var resp acpwire.PromptResponse
		err := s.link.call(callC, acpwire.MethodSessionPrompt, acpwire.PromptRequest{SessionID: s.id, Prompt: blocks}, &resp)
		t.end(resp, err)
	}()
	defer func() {
		cancelCall()
		<-sent
	}()
	return s.follow(ctx, t, began, yield)
}

// follow passes the turn on until it has ended, here and in the agent.
func (s *session) follow(ctx context.Context, t *turn, began time.Time, yield func(bridge.Event) bool) error {
	left := false
	tr := newTranslator(s, func(ev bridge.Event) {
		s.mu.Lock()
		s.remember(ev)
		s.mu.Unlock()
		if !left && !yield(ev) {
			left = true
		}
	})
	// What still comes of an aborted turn is put on record, but not told.
	drain := func() {
		left = true
		items, _ := t.take()
		tr.items(items)
		tr.finishMessage(nil)
	}
	for {
		items, ended := t.take()
		tr.items(items)
		if left && !ended {
			s.abortTurn(t)
			drain()
			return errReaderLeft
		}
		if ended {
			return s.conclude(t, tr, began, &left)
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			s.abortTurn(t)
			drain()
			return context.Cause(ctx)
		}
	}
}

// conclude tells how the turn ended.
func (s *session) conclude(t *turn, tr *translator, began time.Time, left *bool) error {
	usage := s.count(t.resp.Usage, tr)
	failure := t.failed()
	if failure == nil && t.err != nil {
		failure = s.link.explain(t.err, "finish the turn")
		if code := acpwire.CodeOf(t.err); code == acpwire.CodeInternal {
			failure = s.link.modelError(t.err.Error())
		}
	}
	if failure == nil && tr.held != "" && usage.InputTokens+usage.OutputTokens == 0 {
		failure = s.link.modelError(tr.held)
		tr.held = ""
	}
	tr.finishMessage(nil)
	if failure != nil {
		return failure
	}
	if t.resp.StopReason == acpwire.StopMaxTurnRequests {
		return &bridge.Error{Code: bridge.CodeBudget, Message: "the agent stopped after as many requests to the model as it allows itself in one turn",
			Remedy: "ask it to go on"}
	}
	finish := map[string]string{acpwire.StopEndTurn: "stop", acpwire.StopMaxTokens: "length", acpwire.StopRefusal: "refusal"}[t.resp.StopReason]
	if t.resp.StopReason == acpwire.StopRefusal {
		tr.push(bridge.Notice{Level: "warning", Text: "the agent declined to go on"})
	}
	if usage.Calls > 0 {
		tr.push(bridge.UsageReported{Usage: usage, Finish: finish})
	}
	end := bridge.TurnEnded{Reason: bridge.EndDone, Usage: usage, Duration: time.Since(began)}
	if t.resp.StopReason == acpwire.StopCancelled {
		end.Reason = bridge.EndAborted
	} else {
		s.agent.worked()
	}
	tr.push(end)
	if *left {
		return errReaderLeft
	}
	return nil
}

// count is what a turn has used. Agents count from the beginning of the
// session; a count that went back began anew.
func (s *session) count(u *acpwire.Usage, tr *translator) bridge.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := bridge.Usage{Cost: max(0, tr.cost-s.cost)}
	s.cost = max(s.cost, tr.cost)
	if u == nil {
		return out
	}
	before := s.counted
	if u.Input < before.Input || u.Output < before.Output {
		before = acpwire.Usage{}
	}
	s.counted = *u
	of := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	out.InputTokens, out.OutputTokens = u.Input-before.Input, u.Output-before.Output
	out.ReasoningTokens = max(0, of(u.Thought)-of(before.Thought))
	out.CacheRead = max(0, of(u.CachedRead)-of(before.CachedRead))
	out.CacheWrite = max(0, of(u.CachedWrite)-of(before.CachedWrite))
	if out.InputTokens+out.OutputTokens > 0 {
		out.Calls = max(1, tr.requests)
	}
	return out
}

func (s *session) begin(turnC context.Context, quit context.CancelFunc) (*turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil && s.link.alive():
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the session is closed"}
	case !s.link.alive():
		return nil, s.link.explain(acpwire.ErrClosed, "begin the turn")
	case s.turn != nil:
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "a turn is already running in this session",
			Remedy: "wait for it or abort it"}
	}
	s.turn, s.turnC, s.quit = newTurn(), turnC, quit
	return s.turn, nil
}

func (s *session) finish() {
	s.mu.Lock()
	s.turn, s.turnC, s.quit = nil, nil, nil
	clear(s.calls)
	s.mu.Unlock()
}
