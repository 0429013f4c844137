package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
)

// turn is one run of Session.Send, on the caller's goroutine.
type turn struct {
	session    *Session
	door       string
	seat       *Seat
	began      time.Time
	firstWord  time.Duration // from began to the first word of the answer; 0 before
	yield      func(bridge.Event, error) bool
	left       bool          // the caller has left the loop
	moved      bool          // the model was asked
	output     bool          // the caller got something of the answer
	acted      bool          // a tool was called
	failing    *bridge.Error // the failure after which the model was asked again
	limited    time.Time     // since when it waits for a rate limit to pass; zero if it does not
	waited     time.Duration // how long it did so last
	silent     time.Duration // for how long the model had said nothing at the end
	usage      bridge.Usage
	models     map[string]bridge.Usage // the same by model
	charge     charge
	unreported bridge.Usage     // what the agent's figures leave out
	more       *bridge.Prompt   // enqueued: the turn goes on with it
	earlier    bridge.TurnEnded // what the prompts before it have come to
	trace      *traces.Turn     // nil if there is none
}

func (t *turn) run(ctx context.Context, p bridge.Prompt) (err error) {
	s := t.session
	if t.seat == nil {
		if t.seat, err = s.engine.Admit(ctx, s.request.Spec.Profile, t.door); err != nil {
			return err
		}
	}
	defer t.seat.Close()
	if s.request.Title == "" {
		s.request.Title = s.TitleOf(p.Text)
	}
	s.take(t)
	defer func() {
		t.tellUnsent()
		err = t.account(ctx, err)
	}()
	if over := s.tellOver(); over != nil {
		if t.left = !t.yield(over, nil); t.left {
			return nil
		}
	}
	for crashed := false; ; {
		err := t.attempt(ctx, p)
		if t.more != nil && err == nil {
			p, t.more = *t.more, nil
			crashed, t.moved = false, false
			continue
		}
		if err == nil || t.left {
			return err
		}
		if !t.output {
			told := s.fallOver(ctx, err)
			for _, ev := range told {
				if t.left = !t.yield(ev, nil); t.left {
					return err
				}
			}
			if told != nil {
				continue
			}
		}
		if bridge.CodeOf(err) != bridge.CodeCrashed {
			return err
		}
		s.markStale()
		// A runtime that was dead before the turn began has done nothing yet;
		// anything else is the caller's to judge.
		if s.request.Ephemeral || t.moved || crashed {
			return err
		}
		crashed = true
		s.engine.opts.Logger.Info("session.runtime_gone: it is resumed", "session", s.ID())
	}
}

// attempt sends the prompt once and passes the events on.
func (t *turn) attempt(ctx context.Context, p bridge.Prompt) error {
	s := t.session
	inner, err := s.live(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(s.engine.opts.Limits, cancel, t.lossless)
	defer func() { t.silent = w.stop() }()
	s.attend(t, w)
	defer s.attend(nil, nil)
	if p.Mode == "" {
		p.Mode = s.Mode()
	}
	accepted := false
	for ev, err := range inner.Send(ctx, p) {
		if err != nil {
			return err
		}
		if !accepted {
			accepted = true
			s.enterMode(p.Mode)
		}
		w.see(ev)
		t.trace.See(ev)
		if !t.output && isOutput(ev) {
			t.output = true
			s.works()
		}
		if _, ok := ev.(bridge.ToolRequested); ok {
			t.seat.Leave() // until Resolve
		}
		if model, counts := t.charge.see(ev); counts {
			t.settle(ctx, model)
		}
		err := t.judge(ev)
		if err == nil {
			err = t.waitOutside(ctx, ev)
		}
		if err != nil {
			// Leaving the loop aborts the turn in the agent.
			return err
		}
		if end, ok := ev.(bridge.TurnEnded); ok {
			if t.charge.open {
				t.settle(ctx, t.charge.model)
			}
			end.Usage, t.unreported = end.Usage.Add(t.unreported), bridge.Usage{}
			if end.Usage, end.Duration = t.earlier.Usage.Add(end.Usage), t.earlier.Duration+end.Duration; t.goesOn(end) {
				continue // it was the agent's last event
			}
			t.tellUnsent()
			ev = end
		}
		if !t.yield(ev, nil) {
			t.left = true
			return &bridge.Error{Code: bridge.CodeCanceled, Message: "the caller left"}
		}
		w.seen()
	}
	return nil
}

// goesOn says whether the end of the agent's turn is not that of this one, because
// a message was enqueued.
func (t *turn) goesOn(end bridge.TurnEnded) bool {
	if end.Reason != bridge.EndDone {
		return false
	}
	p, ok := t.session.next(t)
	if ok {
		t.more, t.earlier = &p, end
	}
	return ok
}

// tellUnsent tells the reader of the messages for which the turn does not go on.
func (t *turn) tellUnsent() {
	if n := t.session.takeNoMore(t); n > 0 && !t.left {
		t.left = !t.yield(bridge.Notice{Level: "warning", Text: text.Plural(n, "message") + " not sent, because the turn did not end well; send again what still counts"}, nil)
	}
}

// attend notes which turn runs; nil when it is over.
func (s *Session) attend(t *turn, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn, s.watch = t, w
}

// judge counts an event, and ends the turn when a bound is passed or another
// retry is useless. The agent's runtime retries by itself, so the engine only
// stops it.
func (t *turn) judge(ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.ModeChanged:
		t.session.enterMode(e.Mode)
	case bridge.ModelCalled:
		t.moved = true
		t.seat.Started()
	case bridge.TextDelta:
		t.moved = true
		t.spoke(e.AgentID)
	case bridge.ReasoningDelta:
		t.moved = true
	case bridge.MessageDone: // of an agent that does not stream
		if e.Text != "" {
			t.spoke(e.AgentID)
		}
	case bridge.ToolStarted, bridge.ToolRequested:
		t.moved, t.acted = true, true
	case bridge.ModelFailed:
		t.moved, t.failing = true, e.Error
		if t.passes(e.Error) || e.Attempt > bridge.Classify(e.Error).Retries(t.session.engine.opts.Limits.MaxRetries) {
			return t.gaveUp(e)
		}
	case bridge.UsageReported:
		t.failing = nil
		t.session.engine.trouble.Store(nil) // the model has answered
		t.count(e.Usage)
		return t.session.request.Budget.check(t.usage)
	default:
	}
	return nil
}

// spoke notes when the answer has begun. What a sub-agent says is no part of it.
func (t *turn) spoke(subAgent string) {
	if t.firstWord == 0 && subAgent == "" {
		t.firstWord = time.Since(t.began)
	}
}

// passes says that a rate limit is for the caller to wait for: because it asked
// for that and loses nothing, or because it takes longer than a turn may be
// silent.
func (t *turn) passes(e *bridge.Error) bool {
	return e.Code == bridge.CodeRateLimited && e.RetryAfter > 0 && (t.lossless() || e.RetryAfter > t.session.engine.opts.Limits.IdleTimeout)
}

// lossless says that the caller tries again by itself, and that nothing was done
// that would be done twice.
func (t *turn) lossless() bool {
	r := &t.session.request
	return r.PassRateLimits && (r.Spec.Profile == bridge.ProfileChat || !t.acted)
}

// waitOutside gives the turn's seat back while the agent waits for a rate limit
// to pass, and takes it again when the agent asks the model the next time.
func (t *turn) waitOutside(ctx context.Context, ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.ModelFailed:
		if e.Error.Code == bridge.CodeRateLimited {
			t.limited = time.Now()
			t.seat.Leave()
		}
	case bridge.ModelCalled:
		if !t.limited.IsZero() {
			t.waited, t.limited = time.Since(t.limited), time.Time{}
			return t.seat.retake(ctx)
		}
	default:
	}
	return nil
}

func (t *turn) gaveUp(e bridge.ModelFailed) error {
	out := *e.Error
	if out.Code == bridge.CodeRateLimited && out.RetryAfter == 0 {
		// The agent has waited as long as the provider asked it to.
		out.RetryAfter = t.waited.Truncate(time.Second)
	}
	if e.Attempt > 1 {
		out.Message = fmt.Sprintf("%s (gave up after %d attempts)", out.Message, e.Attempt)
	}
	return &out
}

func (b Budget) check(u bridge.Usage) error {
	over := func(what string, limit any) error {
		return &bridge.Error{Code: bridge.CodeBudget, Message: fmt.Sprintf("the turn has used up its budget of %v %s", limit, what)}
	}
	switch {
	case b.ModelCalls > 0 && u.Calls > b.ModelCalls:
		return over("model calls", b.ModelCalls)
	case b.Tokens > 0 && u.InputTokens+u.OutputTokens > b.Tokens:
		return over("tokens", b.Tokens)
	case b.Cost > 0 && u.Cost > b.Cost:
		return over("cost", b.Cost)
	}
	return nil
}

// account adds the turn to the session and the list. If the list cannot be
// written that is logged; the turn does not fail.
func (t *turn) account(ctx context.Context, turnErr error) error {
	s := t.session
	if t.charge.open {
		t.settle(ctx, t.charge.model)
	}
	s.mu.Lock()
	s.usage = s.usage.Add(t.usage)
	s.fresh.turns++
	s.fresh.usage = s.fresh.usage.Add(t.usage)
	s.mu.Unlock()
	state := sessionstore.StateIdle
	if turnErr == nil {
		s.engine.trouble.Store(nil)
	} else {
		state = sessionstore.StateFailed
	}
	s.engine.met(turnErr)
	switch code := bridge.CodeOf(turnErr); {
	case code == bridge.CodeCanceled && t.failing != nil:
		s.engine.met(t.failing) // the caller did not wait for the end of it
	case (code == bridge.CodeCanceled || code == bridge.CodeTimeout) && t.silent >= min(silentMost, s.engine.opts.Limits.IdleTimeout/2):
		s.engine.trouble.Store(&Trouble{At: time.Now(), Error: &bridge.Error{Code: bridge.CodeTimeout,
			Message: "the model has not answered a request within " + t.silent.Truncate(time.Second).String(), Remedy: "see that the network and the model's provider are well"}})
	}
	t.record(ctx)
	if err := s.record(ctx, state); err != nil {
		s.engine.opts.Logger.Warn("sessions.not_written", "error", err)
	}
	return turnErr
}

const (
	// silentMost is how long a model may say nothing before health doubts it.
	silentMost = time.Minute
	// limitedMost is how long a caller that tries again by itself waits for a rate
	// limit of which only the agent knows how long it lasts.
	limitedMost = 10 * time.Second
)

// watch ends a turn that has stopped moving, and says what it waited for. It
// is told of every event; the clock stands still while the reader is busy
// with one. Its timers run on goroutines of their own, hence the lock.
type watch struct {
	limits   Limits
	cancel   func(error)
	lossless func() bool

	mu      sync.Mutex
	last    time.Time // of the last sign of life
	reading bool      // the caller is busy with an event
	asked   map[string]string
	parked  map[string]string // by request
	tools   map[string]string
	order   []string      // running tools, oldest first
	limited *bridge.Error // the rate limit that is waited for
	since   time.Time     // when it was met
	give    *time.Timer   // ends the wait for it; nil for none
	stopped bool
	idle    *time.Timer
	total   *time.Timer
}

func newWatch(l Limits, cancel func(error), lossless func() bool) *watch {
	w := &watch{limits: l, cancel: cancel, lossless: lossless, last: time.Now(),
		asked: map[string]string{}, parked: map[string]string{}, tools: map[string]string{}}
	w.idle = time.AfterFunc(l.IdleTimeout, w.check)
	if l.TotalTimeout > 0 {
		w.total = time.AfterFunc(l.TotalTimeout, w.expire)
	}
	return w
}

// stop ends the watch; it must be called. It returns for how long the model has
// been silent, if it was the model that was waited for.
func (w *watch) stop() (silent time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.idle.Stop()
	if w.total != nil {
		w.total.Stop()
	}
	if w.give != nil {
		w.give.Stop()
	}
	if w.reading || w.limited != nil || len(w.asked)+len(w.parked)+len(w.tools) > 0 {
		return 0
	}
	return time.Since(w.last)
}

// see takes note of an event before the caller gets it; seen is called when
// the caller is done with it.
func (w *watch) see(ev bridge.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.reading = time.Now(), true
	switch e := ev.(type) {
	case bridge.ModelFailed:
		if e.Error.Code == bridge.CodeRateLimited {
			w.limited, w.since = e.Error, time.Now()
			if e.Error.RetryAfter == 0 && w.lossless() {
				w.give = time.AfterFunc(limitedMost, w.giveUp)
			}
		}
	case bridge.ModelCalled:
		if w.limited = nil; w.give != nil {
			w.give.Stop()
		}
	case bridge.ToolStarted:
		w.tools[e.Call.ID] = e.Call.Name
		w.order = append(w.order, e.Call.ID)
	case bridge.ToolFinished:
		delete(w.tools, e.CallID)
	case bridge.ToolRequested:
		w.parked[e.RequestID] = e.Call.Name
		w.idle.Reset(w.limit())
		if w.total != nil {
			w.total.Stop() // the caller's time does not count
		}
	case bridge.PermissionAsked:
		w.asked[e.Request.ID] = "permission for " + subject(e.Request)
	case bridge.PermissionDecided:
		delete(w.asked, e.RequestID)
	case bridge.InputAsked:
		w.asked[e.RequestID] = "an answer to a question"
	case bridge.InputAnswered:
		delete(w.asked, e.RequestID)
	default:
	}
}

// answered is called when the caller's answer to a request has come. The clock
// stands still until resolved: the turn may have to wait for a seat.
func (w *watch) answered(requestID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.parked, requestID)
	w.last, w.reading = time.Now(), true
}

// resolved is called when the agent has got the answer. The total time-out starts
// again: this is the caller's next request.
func (w *watch) resolved(requestID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.parked, requestID)
	w.last, w.reading = time.Now(), false
	if len(w.parked) > 0 || w.stopped {
		return
	}
	w.idle.Reset(w.limits.IdleTimeout)
	if w.total != nil {
		w.total.Reset(w.limits.TotalTimeout)
	}
}

func (w *watch) seen() {
	w.mu.Lock()
	w.last, w.reading = time.Now(), false
	w.mu.Unlock()
}

func subject(r bridge.PermissionRequest) string {
	if r.Tool != "" {
		return r.Tool
	}
	return string(r.Kind)
}

// check runs when the idle time may be over, and sets itself anew if not.
func (w *watch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	limit := w.limit()
	left := limit - time.Since(w.last)
	if w.reading {
		left = limit
	}
	if left > 0 {
		w.idle.Reset(left)
		return
	}
	w.end(&bridge.Error{Code: bridge.CodeTimeout, Message: w.waitingFor(limit.String()),
		Remedy: "raise engine.idle_timeout (COPILOT_BRIDGE_IDLE_TIMEOUT) if that is normal here"})
}

// end cancels the turn. If it waits for a rate limit, that is the error, with
// the rest of the wait, or the time waited if the provider did not say.
func (w *watch) end(err *bridge.Error) {
	if w.limited != nil {
		limit, waited := *w.limited, time.Since(w.since)
		if limit.RetryAfter = max(limit.RetryAfter-waited, time.Second); w.limited.RetryAfter == 0 {
			limit.RetryAfter = waited
		}
		err = &limit
	}
	w.cancel(err)
}

// limit is how long the current kind of silence may last.
func (w *watch) limit() time.Duration {
	switch {
	case len(w.asked) > 0:
		return w.limits.ApprovalTimeout + w.limits.IdleTimeout
	case len(w.parked) > 0:
		return w.limits.ParkTimeout
	case w.limited != nil:
		return w.limits.IdleTimeout + w.limited.RetryAfter
	}
	return w.limits.IdleTimeout
}

// giveUp runs when a rate limit has lasted too long for the caller.
func (w *watch) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped && w.limited != nil {
		w.end(nil) // with the rate limit
	}
}

func (w *watch) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	since := time.Since(w.last).Round(time.Millisecond).String()
	w.end(&bridge.Error{Code: bridge.CodeTimeout,
		Message: fmt.Sprintf("the turn took longer than %s (%s)", w.limits.TotalTimeout, w.waitingFor(since)),
		Remedy:  "raise engine.total_timeout (COPILOT_BRIDGE_TOTAL_TIMEOUT) or pass --timeout"})
}

// waitingFor names the cause of a silence of the given length.
func (w *watch) waitingFor(length string) string {
	for _, what := range w.asked {
		return what + " pending for " + length
	}
	for _, name := range w.parked {
		return "the caller's tool " + name + " unanswered for " + length
	}
	for _, id := range w.order {
		if name, ok := w.tools[id]; ok {
			return "tool " + name + " silent for " + length
		}
	}
	return "model silent for " + length
}
