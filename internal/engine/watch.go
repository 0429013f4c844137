package engine

import (
	"fmt"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// watch ends a turn that has stopped moving, and says what it waited for. It
// is told of every event; the clock stands still while the reader is busy
// with one. Its timers run on goroutines of their own, hence the lock.
type watch struct {
	limits Limits
	cancel func(error)

	mu      sync.Mutex
	last    time.Time // of the last sign of life
	reading bool      // the caller is busy with an event
	asked   map[string]string
	parked  map[string]string // by request
	tools   map[string]string
	order   []string // running tools, oldest first
	stopped bool
	idle    *time.Timer
	total   *time.Timer
}

func newWatch(l Limits, cancel func(error)) *watch {
	w := &watch{limits: l, cancel: cancel, last: time.Now(),
		asked: map[string]string{}, parked: map[string]string{}, tools: map[string]string{}}
	w.idle = time.AfterFunc(l.IdleTimeout, w.check)
	if l.TotalTimeout > 0 {
		w.total = time.AfterFunc(l.TotalTimeout, w.expire)
	}
	return w
}

// stop ends the watch; it must be called.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.idle.Stop()
	if w.total != nil {
		w.total.Stop()
	}
}

// see takes note of an event before the caller gets it; seen is called when
// the caller is done with it.
func (w *watch) see(ev bridge.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.reading = time.Now(), true
	switch e := ev.(type) {
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

// resolved is called when the agent has got the answer. The whole time
// that a turn may take begins anew with that: it is the caller's next request.
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
	w.cancel(&bridge.Error{Code: bridge.CodeTimeout, Message: w.waitingFor(limit.String()),
		Remedy: "raise engine.idle_timeout (COPILOT_BRIDGE_IDLE_TIMEOUT) if that is normal here"})
}

// limit is how long the present kind of silence may last.
func (w *watch) limit() time.Duration {
	switch {
	case len(w.asked) > 0:
		return w.limits.ApprovalTimeout + w.limits.IdleTimeout
	case len(w.parked) > 0:
		return w.limits.ParkTimeout
	}
	return w.limits.IdleTimeout
}

func (w *watch) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	since := time.Since(w.last).Round(time.Millisecond).String()
	w.cancel(&bridge.Error{Code: bridge.CodeTimeout,
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
