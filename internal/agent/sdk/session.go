package sdk

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

const (
	// abortWithin is how long the runtime may be silent after an abort before
	// it is taken for hung and killed; abortAtMost if that would take others'
	// turns with it, for on a starved machine the merely busy look the same.
	abortWithin = 2 * time.Second
	abortAtMost = 20 * time.Second
	// abortAgain is the time between the first two requests to abort.
	abortAgain = 50 * time.Millisecond
	// confirmWithin bounds the wait for the runtime's word that an aborted turn
	// has left its queue for good.
	confirmWithin = 500 * time.Millisecond
	// idleWithin bounds the wait for the last event after the runtime has said
	// that the turn is over.
	idleWithin = 2 * time.Second
	// inUseWithin bounds the wait for another runtime to let go of a session.
	inUseWithin = 2 * time.Second
)

// session is a bridge.Session on one process of a host. When that process
// dies the session is dead too; Agent.Resume makes a new one.
type session struct {
	host *host
	proc *process
	spec bridge.SessionSpec
	sdk  *copilot.Session
	tr   *translator

	ctx  context.Context // ends with Close: gates and persons stop waiting
	stop context.CancelFunc

	resumed chan bool // whether the session was open elsewhere when it was resumed

	wall   wall
	grants grants

	given  atomic.Bool // the claim on what is stored was released
	ending atomic.Bool // the turn is being aborted; its events say nothing

	mu    sync.Mutex
	turn  *turn           // nil between turns
	turnC context.Context // the running turn's
	first string          // event id of the first user message, for Reset
	older bool            // there may be messages before first
	kept  int             // events from first on that the runtime stores
	doubt bool            // those are perhaps not all that a reset has to remove
	loose bool            // an aborted turn may still be under way
	asked int             // questions of the gate, to number them
}

func newSession(h *host, p *process, spec bridge.SessionSpec) *session {
	ctx, stop := context.WithCancel(context.Background())
	return &session{host: h, proc: p, spec: spec, tr: newTranslator(h), ctx: ctx, stop: stop, resumed: make(chan bool, 1)}
}

func (s *session) ID() string { return s.sdk.SessionID }

// onEvent runs on the SDK's event goroutine, one event at a time.
func (s *session) onEvent(e copilot.SessionEvent) {
	if !s.ending.Load() {
		s.proc.heard.Store(time.Now().UnixNano())
	}
	s.follow(e)
	s.mu.Lock()
	t := s.turn
	s.note(e)
	s.mu.Unlock()
	if d, ok := e.Data.(*rpc.SessionResumeData); ok {
		select {
		case s.resumed <- d.AlreadyInUse != nil && *d.AlreadyInUse:
		default:
		}
	}
	if t == nil {
		return // between turns: what matters of it is in the history
	}
	if s.spec.Raw {
		raw(e, t.push)
	}
	switch d := e.Data.(type) {
	case *rpc.SessionErrorData:
		if e.AgentID == nil {
			t.fail(s.host.sessionError(d))
			return
		}
	case *rpc.SessionIdleData:
		if e.AgentID == nil {
			t.end(d.Aborted != nil && *d.Aborted, nil)
			return
		}
	}
	s.tr.translate(e, t.push)
}

// gateContext is what gates and persons run under: the turn, if there is one.
func (s *session) gateContext() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turnC != nil {
		return s.turnC
	}
	return s.ctx
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
	if s.spec.Gate != nil {
		text, err := s.spec.Gate.Prompt(ctx, p.Text)
		if err != nil {
			return err
		}
		p.Text = text
	}
	req, err := sendRequest(p)
	if err != nil {
		return err
	}
	turnC, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.renew(ctx); err != nil {
		return err
	}
	t, err := s.begin(turnC)
	if err != nil {
		return err
	}
	began := time.Now()
	sendC, cancelSend := context.WithCancel(context.WithoutCancel(ctx))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// The answer comes when the turn is over, and at once if the runtime
		// dies: this is how a crash is noticed.
		_, err := s.sdk.RPC.Send(sendC, req)
		s.sent(t, err)
	}()
	aborted, done := false, false
	defer func() {
		s.finish(done)
		if aborted {
			s.confirm(sent)
		}
		cancelSend()
		<-sent
		t.settle()
		s.settle(done)
	}()

	total := bridge.Usage{}
	for {
		events, ended, stopped, failure := t.take()
		for _, ev := range events {
			switch e := ev.(type) {
			case bridge.UsageReported:
				total = total.Add(e.Usage)
			case bridge.PlanChanged:
				e.Entries = s.steps(ctx)
				ev = e
			default:
			}
			if !yield(ev) {
				aborted = true
				s.abortTurn(t)
				return errReaderLeft
			}
		}
		if ended {
			aborted = stopped
			if failure != nil {
				return failure
			}
			end := bridge.TurnEnded{Reason: bridge.EndDone, Usage: total, Duration: time.Since(began)}
			if stopped {
				end.Reason = bridge.EndAborted
			} else {
				done = true
				s.host.worked(s.proc)
			}
			if !yield(end) {
				return errReaderLeft
			}
			return nil
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			aborted = true
			s.abortTurn(t)
			return context.Cause(ctx)
		}
	}
}

// confirm waits until the runtime has answered the send request of an aborted
// turn: only then is it sure that the message will not be taken up after all.
func (s *session) confirm(sent <-chan struct{}) {
	late := time.NewTimer(confirmWithin)
	defer late.Stop()
	select {
	case <-sent:
	case <-late.C:
		s.distrust()
	}
}

func (s *session) begin(turnC context.Context) (*turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the session is closed"}
	}
	if s.turn != nil {
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "a turn is already running in this session",
			Remedy: "wait for it or abort it"}
	}
	s.turn, s.turnC = newTurn(), turnC
	s.proc.turns.Add(1)
	s.ending.Store(false)
	s.tr.reset()
	return s.turn, nil
}

// finish is called when a turn is over; done says that it ended well.
func (s *session) finish(done bool) {
	s.mu.Lock()
	s.turn, s.turnC = nil, nil
	s.doubt = s.doubt || !done
	s.proc.turns.Add(-1)
	s.mu.Unlock()
}

// sent handles the end of the send request.
func (s *session) sent(t *turn, err error) {
	switch {
	case err == nil:
		// The idle event normally came just before; if it got lost the turn
		// must not hang for it. There is none if the turn was aborted before
		// it began; but one that is late would end the next turn.
		if s.ending.Load() {
			t.endWithin(confirmWithin/2, s.distrust)
			return
		}
		t.endWithin(idleWithin, nil)
	case errors.Is(err, context.Canceled):
		t.end(true, nil)
	default:
		e := s.host.explain(err, "finish the turn")
		if bridge.CodeOf(e) == bridge.CodeCrashed {
			s.host.crashed(s.proc)
		}
		t.end(false, e)
	}
}

// errSilent says that no session of a runtime says anything any more.
var errSilent = errors.New("it has gone silent")

// abortTurn ends the turn in the runtime and waits until it is over there
// too; a runtime that does not react is killed. While it serves others a chat
// is given up instead: unlike an agent it has no tool at work.
func (s *session) abortTurn(t *turn) {
	ctx, cancel := context.WithTimeout(context.Background(), abortAtMost)
	defer cancel()
	err := s.awaitEnd(ctx, t)
	if err == nil {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) && s.host.profile == bridge.ProfileChat && s.proc.turns.Load() > 1 {
		s.host.opts.Logger.Warn("the runtime did not end an aborted chat, which is given up", "session", s.ID())
		s.distrust()
		return
	}
	if bridge.CodeOf(s.host.explain(err, "abort the turn")) != bridge.CodeCrashed {
		s.host.opts.Logger.Warn("the runtime did not end an aborted turn and is restarted", "session", s.ID(), "error", err)
	}
	s.host.crashed(s.proc)
}

// awaitEnd asks the runtime to abort, again and again until the turn has
// ended: a request that comes before the message was taken up has no effect,
// and now and then one is not answered.
func (s *session) awaitEnd(ctx context.Context, t *turn) error {
	s.ending.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan error)
	ask := func() {
		err := s.sdk.Abort(ctx)
		select {
		case answers <- err:
		case <-ctx.Done():
		}
	}
	open, began, pause := 0, time.Now(), abortAgain
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		if _, ended, _, _ := t.take(); ended {
			break
		}
		select {
		case <-t.wake:
		case err := <-answers:
			if open--; err != nil {
				return err
			}
		case now := <-again.C:
			last := max(s.proc.heard.Load(), began.UnixNano())
			if now.UnixNano()-last > int64(abortWithin) && s.proc.turns.Load() == 1 {
				return errSilent
			}
			open++
			wg.Go(ask)
			again.Reset(pause)
			pause = min(2*pause, abortWithin/2)
		case <-ctx.Done():
			if s.proc.heard.Load() < began.UnixNano() {
				return errSilent
			}
			return ctx.Err()
		}
	}
	// A request that is still under way would hit the next turn.
	late := time.After(confirmWithin)
	for ; open > 0; open-- {
		select {
		case <-answers:
		case <-late:
			s.distrust()
			return nil
		}
	}
	return nil
}

// distrust keeps the session from being used by somebody else.
func (s *session) distrust() {
	s.mu.Lock()
	s.loose = true
	s.mu.Unlock()
}

func (s *session) Abort(ctx context.Context) error {
	s.mu.Lock()
	running := s.turn != nil
	s.mu.Unlock()
	if !running {
		return nil
	}
	s.ending.Store(true)
	return s.host.explain(s.sdk.Abort(ctx), "abort the turn")
}

func (s *session) Resolve(ctx context.Context, requestID string, result bridge.ToolResult) error {
	req := &rpc.HandlePendingToolCallRequest{RequestID: requestID, Result: rpc.ExternalToolStringResult(result.Text)}
	if result.Failed {
		kind := "failure"
		req.Result = &rpc.ExternalToolTextResultForLlm{TextResultForLlm: result.Text, ResultType: &kind, Error: &result.Text}
	}
	res, err := s.sdk.RPC.Tools.HandlePendingToolCall(ctx, req)
	if err != nil {
		return s.host.explain(err, "hand over a tool's result")
	}
	if res != nil && !res.Success {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "no tool call is waiting under " + requestID}
	}
	return nil
}

func (s *session) SetModel(ctx context.Context, model, effort string) error {
	opts := &copilot.SetModelOptions{}
	if effort != "" {
		opts.ReasoningEffort = &effort
	}
	return s.host.explain(s.sdk.SetModel(ctx, model, opts), "switch the model to "+model)
}

// History replays the stored events through the same translation as a turn.
func (s *session) History(ctx context.Context) ([]bridge.Event, error) {
	stored, err := s.sdk.GetEvents(ctx)
	if err != nil {
		return nil, s.host.explain(err, "read the session's history")
	}
	tr := newTranslator(s.host)
	var out []bridge.Event
	for _, e := range stored {
		tr.translate(e, func(ev bridge.Event) { out = append(out, ev) })
	}
	if s.spec.Profile == bridge.ProfileAgent {
		// The list of steps is not among the events; this is how it stands.
		if steps := s.steps(ctx); len(steps) > 0 {
			out = append(out, bridge.PlanChanged{Entries: steps})
		}
	}
	return out, nil
}

func (s *session) Close(ctx context.Context) error {
	err := s.leave(ctx)
	if s.stored() && s.given.CompareAndSwap(false, true) {
		err = errors.Join(err, s.host.agent.release(s.ID()))
	}
	return err
}

// leave disconnects the session, which has the runtime write it down.
func (s *session) leave(ctx context.Context) error {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t != nil {
		s.abortTurn(t)
	}
	s.stop()
	s.endShells(ctx)
	gone := s.proc.detach(s.sdk)
	defer s.host.left(ctx, s.proc)
	done := make(chan error, 1)
	go func() { // returns when the process ends at the latest
		err := s.sdk.Disconnect()
		gone()
		done <- err
	}()
	select {
	case err := <-done:
		err = errors.Join(err, s.raze())
		if err = s.host.explain(err, "close the session"); bridge.CodeOf(err) == bridge.CodeCrashed {
			return nil // there is nothing left to close
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
