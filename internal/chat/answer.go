package chat

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// answer is one request on its way. The reader takes items; the
// goroutine of the turn writes them and closes the channel when the answer,
// which may be before the turn, is over.
type answer struct {
	chat    *bridge.Chat
	shape   *shape
	format  digest
	history []bridge.Message // the whole conversation
	known   []bridge.Message // up to the last word of the assistant
	fresh   []bridge.Message // after that
	before  *remembered      // what Chat.Previous named
	chain   *chain           // of known, then of all
	began   time.Time

	items  chan bridge.Piece
	gone   chan struct{} // closed when the reader has left
	once   sync.Once
	first  chan struct{} // closed with the first item
	spoke  sync.Once
	over   atomic.Bool             // the answer has ended; its turn need not be aborted
	cancel context.CancelCauseFunc // ends the turn

	steady *steady // of the turn's goroutine
}

// accept checks a request and makes an answer of it.
func (s *Service) accept(c *bridge.Chat) (*answer, error) {
	a := &answer{chat: c, began: time.Now(), history: c.Messages, format: formatKey(c),
		items: make(chan bridge.Piece, 64), gone: make(chan struct{}), first: make(chan struct{})}
	if c.Previous != "" {
		var err error
		if a.before, err = s.answers.find(c.Previous); err != nil {
			return nil, err
		}
		a.history = append(a.before.messages(), c.Messages...)
	}
	if n := len(c.Messages); n == 0 {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "there are no messages"}
	} else if last := c.Messages[n-1].Role; last != bridge.RoleUser && last != bridge.RoleTool {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the last message is the " + string(last) + "'s: there is nothing to answer",
			Remedy: "end with a message of the user or the result of a tool"}
	}
	if c.Profile == bridge.ProfileAgent && s.opts.AgentSpec == nil {
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "agents are not served here"}
	}
	var err error
	if a.shape, err = shapeOf(c); err != nil {
		return nil, err
	}
	a.steady = newSteady(c.Whole, a.shape, func(ev bridge.Event) { a.put(ev, nil) })
	a.known, a.fresh = split(a.history)
	a.chain = newChain(a.shape.key)
	a.chain.add(a.known...)
	return a, nil
}

// put hands something to the reader, unless it has left.
func (a *answer) put(ev bridge.Event, err error) {
	a.spoke.Do(func() { close(a.first) })
	select {
	case a.items <- bridge.Piece{Event: ev, Err: err}:
	case <-a.gone:
	}
}

// leave is called when the reader goes away; it aborts a turn whose answer is
// not over.
func (a *answer) leave() {
	a.once.Do(func() {
		close(a.gone)
		if !a.over.Load() {
			a.cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "the client has left"})
		}
	})
}

func (a *answer) end(r bridge.EndReason, u bridge.Usage) bridge.TurnEnded {
	return bridge.TurnEnded{Reason: r, Usage: u, Duration: time.Since(a.began)}
}

// finish ends the answer well.
func (a *answer) finish(r bridge.EndReason) {
	a.over.Store(true)
	a.put(a.end(r, a.steady.usage), nil)
	close(a.items)
}

// fail ends it with an error.
func (a *answer) fail(err error) {
	a.over.Store(true)
	e := bridge.AsError(err)
	if a.steady.begun {
		reason := bridge.EndFailed
		if e.Code == bridge.CodeCanceled {
			reason = bridge.EndAborted
		}
		a.put(bridge.Failed{Error: e}, nil)
		a.put(a.end(reason, a.steady.usage), nil)
	}
	a.put(nil, e)
	close(a.items)
}

// reply is what the client has been told, as it will send it back.
func (a *answer) reply(calls []bridge.ToolCall) bridge.Message {
	return bridge.Message{Role: bridge.RoleAssistant, Text: a.steady.text.String(), Calls: calls}
}
