package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// conversation is a session on one link. When the link ends the session is dead
// too; Agent.Resume makes a new one.
type conversation struct {
	*session.Base
	agent *Agent
	link  *link
	wg    sync.WaitGroup // judgements of calls that did not ask

	mu        sync.Mutex
	turn      *turn // nil between turns
	calls     map[string]*call
	terminals map[string]*terminal
	root      *os.Root // the working directory, when files are first served
	numbered  int      // of permission requests and terminals
	loading   bool     // updates are the history
	replay    []item
	history   []bridge.Event
	told      bool // the system text was sent
	modes     *acpwire.Modes
	baseMode  string
	options   []acpwire.ConfigOption
	counted   acpwire.Usage // of all turns so far, as the agent counts
	cost      float64
}

func newConversation(a *Agent, l *link, id string, spec bridge.SessionSpec) *conversation {
	return &conversation{Base: session.New(id, spec), agent: a, link: l, calls: map[string]*call{}, terminals: map[string]*terminal{}}
}

// hear takes an update. It runs on the connection's reader, so it only takes
// note; Send's goroutine does the rest.
func (s *conversation) hear(it item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		return
	}
	s.note(it.update)
	switch {
	case s.loading:
		s.replay = append(s.replay, it)
	case s.turn != nil:
		if !s.turn.push(it) && s.turn.Fail(errUnread) {
			s.wg.Go(func() { s.forbid(errUnread) })
		}
	}
}

// note keeps the state of the session. mu is held.
func (s *conversation) note(u acpwire.Update) {
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
func (s *conversation) loaded() {
	s.mu.Lock()
	replay := s.replay
	s.replay, s.loading = nil, false
	s.mu.Unlock()
	var past []bridge.Event
	tr := newTranslator(s, func(ev bridge.Event) { past = append(past, ev) })
	tr.replaying = true
	tr.items(replay)
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
func (s *conversation) remember(ev bridge.Event) {
	switch ev.(type) {
	case bridge.MessageDone, bridge.ToolStarted, bridge.ToolFinished, bridge.PlanChanged, bridge.UserSaid:
		s.history = append(s.history, ev)
	default:
	}
}

func (s *conversation) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return s.Run(ctx, p, s.send)
}

func (s *conversation) send(ctx context.Context, st *session.Turn, p bridge.Prompt) error {
	if !s.link.alive() {
		return s.link.explain(jsonrpc.ErrClosed, "begin the turn")
	}
	// The turn before may have made such files, and sub-agents load them anew.
	if err := s.agent.loadable(s.Spec); err != nil {
		return err
	}
	blocks, err := s.blocks(p)
	if err != nil {
		return err
	}
	t := newTurn(st)
	s.ShowWith(st, t.show)
	s.mu.Lock()
	s.turn = t
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.turn = nil
		clear(s.calls)
		s.mu.Unlock()
	}()
	if err := s.setMode(ctx, p.Mode); err != nil {
		return err
	}
	s.mu.Lock()
	s.told = true
	s.history = append(s.history, bridge.UserSaid{Text: p.Text})
	s.mu.Unlock()

	callC, cancelCall := context.WithCancel(context.WithoutCancel(ctx))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// The answer comes when the turn is over, and an error at once if the
		// agent dies.
		var resp acpwire.PromptResponse
		err := s.link.call(callC, acpwire.MethodSessionPrompt, acpwire.PromptRequest{SessionID: s.ID(), Prompt: blocks}, &resp)
		t.resp, t.answerErr = resp, err
		t.Queue.End(nil)
	}()
	defer func() {
		cancelCall()
		<-sent
	}()
	return s.follow(ctx, t)
}

// follow passes the turn on until it has ended, here and in the agent.
func (s *conversation) follow(ctx context.Context, t *turn) error {
	left := false
	tr := newTranslator(s, func(ev bridge.Event) {
		s.mu.Lock()
		s.remember(ev)
		s.mu.Unlock()
		left = left || t.Emit(ev) != nil
	})
	// The rest of an aborted turn is put on record, but not told.
	drain := func() {
		left = true
		items, _, _ := t.Take()
		tr.items(items)
		tr.finishMessage(nil)
	}
	for {
		items, ended, failure := t.Take()
		tr.items(items)
		if left && !ended {
			s.abortTurn(t)
			drain()
			return session.ErrReaderLeft
		}
		if ended {
			return s.conclude(t, tr, failure)
		}
		select {
		case <-t.Wake():
		case <-t.Ctx.Done(): // canceled, or the client has disconnected
			s.abortTurn(t)
			if ctx.Err() != nil {
				drain()
				return context.Cause(ctx)
			}
		}
	}
}

// conclude tells how the turn ended.
func (s *conversation) conclude(t *turn, tr *translator, failure error) error {
	usage := s.count(t.resp.Usage, tr)
	if failure == nil && t.answerErr != nil {
		failure = s.link.explain(t.answerErr, "finish the turn")
		if code := jsonrpc.CodeOf(t.answerErr); code == jsonrpc.CodeInternal {
			failure = s.link.modelError(t.answerErr.Error())
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
	t.Usage = usage
	if t.resp.StopReason == acpwire.StopCancelled {
		return t.Turn.End(bridge.EndAborted)
	}
	s.agent.worked()
	return t.Turn.End(bridge.EndDone)
}

// count is what a turn has used. Agents count from the beginning of the
// session; a count that went back began anew.
func (s *conversation) count(u *acpwire.Usage, tr *translator) bridge.Usage {
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

const (
	// abortWithin is how long the agent may be silent, in all of its sessions,
	// while it should end a turn, before it is taken for hung and ended;
	// abortAtMost if it is merely busy.
	abortWithin = 3 * time.Second
	abortAtMost = 20 * time.Second
	// abortAgain is the time between the first two requests to abort.
	abortAgain = 50 * time.Millisecond
	// closeWithin bounds the request that closes a session.
	closeWithin = 5 * time.Second
)

// abortTurn ends the turn in the agent and waits until it is over there too.
// One that does not react is ended, with the turns of all other sessions.
func (s *conversation) abortTurn(t *turn) {
	ctx, cancel := context.WithTimeout(context.Background(), abortAtMost)
	defer cancel()
	began, pause := time.Now(), abortAgain
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		if t.Ended() {
			return
		}
		select {
		case <-t.Wake():
			continue
		case now := <-again.C:
			if last := max(s.link.heard.Load(), began.UnixNano()); now.UnixNano()-last <= int64(abortWithin) {
				_ = s.cancelTurn(ctx) // an agent that has gone has ended it
				again.Reset(pause)
				pause = min(2*pause, abortWithin/2)
				continue
			}
		case <-ctx.Done():
		}
		s.link.opts.Logger.Warn("acp.abort_ignored: the agent is restarted", "session", s.ID())
		s.link.conn.Fail(errors.New("it did not end an aborted turn"))
		return
	}
}

// cancelTurn asks the agent to end the turn. Then it answers the permission
// requests that still wait, as the protocol wants it: an agent that had these
// answers first could go on, and end the turn as if it were done.
func (s *conversation) cancelTurn(ctx context.Context) error {
	if t := s.Running(); t != nil {
		defer t.Cancel()
	}
	return s.link.conn.Notify(ctx, acpwire.NotifyCancel, acpwire.SessionRef{SessionID: s.ID()})
}

// forbid ends the running turn because of something that the policy denies.
func (s *conversation) forbid(err error) {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t == nil {
		return
	}
	t.Fail(err)
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = s.cancelTurn(ctx) // an agent that has gone does no more
}

func (s *conversation) Abort(ctx context.Context) error {
	s.mu.Lock()
	running := s.turn != nil
	s.mu.Unlock()
	if !running { // or the agent does not have the prompt yet
		return s.Base.Abort(ctx)
	}
	return s.link.explain(s.cancelTurn(ctx), "abort the turn")
}

// Resolve has nothing to answer: there are no tools of the caller.
func (s *conversation) Resolve(_ context.Context, requestID string, _ bridge.ToolResult) error {
	return session.NoCall(requestID)
}

// History returns the messages of this session since it was opened, after those
// that the ACP agent replayed.
func (s *conversation) History(context.Context) ([]bridge.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]bridge.Event(nil), s.history...), nil
}

func (s *conversation) Close(ctx context.Context) error {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if s.over() {
		return nil
	}
	s.MarkClosed()
	if t != nil {
		s.abortTurn(t)
	}
	var err error
	if s.link.init.Capabilities.Session.Close != nil && s.link.alive() {
		callC, cancel := context.WithTimeout(ctx, closeWithin)
		err = s.link.call(callC, acpwire.MethodSessionClose, acpwire.SessionRef{SessionID: s.ID()}, nil)
		cancel()
	}
	s.release(ctx)
	err = s.link.explain(err, "close the session")
	if !s.link.alive() {
		err = nil // there is nothing left to close
	}
	return err
}

// over reports whether the session is closed.
func (s *conversation) over() bool { return s.Context().Err() != nil }

// release frees what the session holds here.
func (s *conversation) release(ctx context.Context) {
	s.mu.Lock()
	s.Stop() // nothing is begun after that
	s.mu.Unlock()
	s.link.unregister(s)
	s.wg.Wait()
	s.endTerminals(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root != nil {
		_ = s.root.Close() // only a handle to look things up in
		s.root = nil
	}
}

// mostWaiting bounds the bytes of updates that wait in a turn. It is more than
// the SDK agent's 1 MiB, since updates carry the output of tools twice.
const mostWaiting = 8 << 20

// errUnread ends a turn whose reader does not keep up.
var errUnread = &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("the answer was ended because it is not read: %d MiB of it were waiting", mostWaiting>>20),
	Remedy: "read the answer as it comes"}

// item is something that happened in a turn: an update of the agent, or an
// event that the bridge made.
type item struct {
	update acpwire.Update
	raw    json.RawMessage // the update as it came; nil if the bridge made it
	event  bridge.Event
}

// turn is the queue that Send reads from, in the order in which things happened.
type turn struct {
	*session.Turn
	*session.Queue[item]
	resp      acpwire.PromptResponse // with answerErr, before the queue ends
	answerErr error
}

func newTurn(t *session.Turn) *turn {
	return &turn{Turn: t, Queue: session.NewQueue(mostWaiting, func(it item) int { return len(it.raw) }, join)}
}

func (t *turn) show(ev bridge.Event) { t.Push(item{event: ev}) }

// push queues an item and reports whether there was room; if not, the turn must
// be ended. The end of a tool call is queued in any case, if necessary without
// its output, to be recorded.
func (t *turn) push(it item) (room bool) {
	if t.Push(it) {
		return true
	}
	if u, ok := it.update.(*acpwire.ToolCall); ok && (u.Status == acpwire.StatusCompleted || u.Status == acpwire.StatusFailed) {
		t.Push(item{update: &acpwire.ToolCall{Type: u.Type, ToolCallID: u.ToolCallID, Status: u.Status}})
	}
	return false
}

// join makes one piece of text of two.
func join(last, next item, most int) (item, bool) {
	a, ok := last.update.(*acpwire.Chunk)
	b, ok2 := next.update.(*acpwire.Chunk)
	if !ok || !ok2 || a.Type != b.Type || a.MessageID != b.MessageID || a.Content.Type != acpwire.ContentText || b.Content.Type != acpwire.ContentText ||
		len(a.Content.Text)+len(b.Content.Text) > most {
		return item{}, false
	}
	joined := *a
	joined.Content.Text += b.Content.Text
	return item{update: &joined}, true
}
