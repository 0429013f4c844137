package anthropic

import (
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// The values of stop_reason that an answer can have here.
const (
	stopEndTurn   = "end_turn"
	stopToolUse   = "tool_use"
	stopMaxTokens = "max_tokens"
	stopSequence  = "stop_sequence"
	stopRefusal   = "refusal"
)

// kind is the kind of a content block of an answer.
type kind int

const (
	noBlock kind = iota
	textBlock
	thinkingBlock
	toolBlock
)

// sink takes the blocks of an answer, one after another: each is opened, gets
// any number of pieces, and is closed before the next one.
type sink interface {
	open(k kind, call *bridge.ToolCall) // the call is a toolBlock's
	piece(k kind, text string)          // of text or of thinking
	close(k kind)
}

// answer follows the events of a turn and puts its blocks together.
type answer struct {
	out      sink
	cut      cutter
	thinking display
	// whole is set for a client that takes the answer in one piece. Pieces of
	// a message may then be those of one that broke and was begun anew: only
	// what MessageDone says counts.
	whole bool

	current kind              // the open block
	shown   int               // bytes of the message's text that have come in pieces
	thought bool              // some of its reasoning has
	mind    []byte            // all of that, if the answer is taken whole
	calls   []bridge.ToolCall // of the last message

	why    string       // the model stopped, in its provider's words
	usage  bridge.Usage // of what was reported; of all, once the turn has ended
	wrote  int64        // bytes, for an estimate if no usage is reported
	ended  bool
	reason bridge.EndReason
}

func newAnswer(p *prompt, out sink) *answer {
	return &answer{out: out, cut: newCutter(p.stops, p.maxTokens), thinking: p.thinking, whole: p.chat.Whole}
}

// next takes an event. When enough reports true the rest of the turn is not
// wanted any more.
func (a *answer) next(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.TextDelta:
		if e.AgentID != "" || a.whole || e.Text == "" {
			return // a sub-agent speaks to its agent, not to the client
		}
		a.shown += len(e.Text)
		a.say(e.Text)
	case bridge.ReasoningDelta:
		switch {
		case e.AgentID != "":
		case a.whole:
			a.mind = append(a.mind, e.Text...)
		default:
			a.thought = true
			a.think(e.Text)
		}
	case bridge.MessageDone:
		if e.AgentID == "" {
			a.done(e)
		}
	case bridge.UsageReported:
		a.usage, a.why = a.usage.Add(e.Usage), e.Finish
	case bridge.TurnEnded:
		a.end(e)
	default:
		a.think(wire.Activity(ev))
	}
}

// enough reports whether the text has met a stop sequence or its limit.
func (a *answer) enough() bool { return a.cut.reason != "" }

// done adds what of a message has not come in pieces: all of it if the model's
// provider does not stream, or if the answer is taken whole. Each message gets
// a block of its own: an agent says several, and clients show blocks apart.
func (a *answer) done(e bridge.MessageDone) {
	if !a.thought && a.shown == 0 {
		reasoning := e.Reasoning
		if reasoning == "" {
			reasoning = string(a.mind)
		}
		a.think(reasoning)
	}
	if n := a.shown; n < len(e.Text) && utf8.RuneStart(e.Text[n]) {
		a.say(e.Text[n:])
	}
	a.emit(textBlock, a.cut.rest())
	if a.current == textBlock {
		a.shut()
	}
	a.shown, a.thought, a.mind, a.calls = 0, false, a.mind[:0], e.Calls
}

func (a *answer) end(e bridge.TurnEnded) {
	a.ended, a.reason = true, e.Reason
	if e.Usage != (bridge.Usage{}) {
		a.usage = e.Usage
	}
	a.finish()
	if e.Reason != bridge.EndTools {
		return
	}
	for i := range a.calls {
		a.wrote += 4 * valueTokens(a.calls[i].Args)
		a.out.open(toolBlock, &a.calls[i])
		a.out.close(toolBlock)
	}
}

// finish closes what is open.
func (a *answer) finish() {
	a.emit(textBlock, a.cut.rest())
	a.shut()
}

func (a *answer) say(text string) {
	a.emit(textBlock, a.cut.next(text))
}

func (a *answer) think(text string) {
	if a.thinking == hidden {
		return
	}
	a.emit(thinkingBlock, text)
}

func (a *answer) emit(k kind, text string) {
	if text == "" {
		return
	}
	if k != a.current {
		a.shut()
		a.out.open(k, nil)
		a.current = k
	}
	if k == thinkingBlock && a.thinking == omitted {
		return
	}
	a.wrote += int64(len(text))
	a.out.piece(k, text)
}

func (a *answer) shut() {
	if a.current != noBlock {
		a.out.close(a.current)
		a.current = noBlock
	}
}

// stopReason is the API's word for how the answer ended.
func (a *answer) stopReason() string {
	switch {
	case a.cut.reason != "":
		return a.cut.reason
	case a.reason == bridge.EndTools && len(a.calls) > 0:
		return stopToolUse
	case a.why == "length" || a.why == "max_tokens":
		return stopMaxTokens
	case a.why == "content_filter" || a.why == "refusal":
		return stopRefusal
	default:
		return stopEndTurn
	}
}

// failure is the error for a sequence of events that ended without one, and
// without an answer.
func (a *answer) failure() error {
	switch {
	case !a.ended:
		return &bridge.Error{Code: bridge.CodeInternal, Message: "The answer ended before it was complete"}
	case a.reason == bridge.EndAborted:
		return &bridge.Error{Code: bridge.CodeCanceled, Message: "The turn was aborted"}
	case a.reason == bridge.EndFailed:
		return &bridge.Error{Code: bridge.CodeInternal, Message: "The turn failed"}
	default:
		return nil
	}
}
