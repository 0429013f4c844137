package openai

import (
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// between separates the messages of one answer. Only agents, which speak
// before and after they use their tools, say more than one.
const between = "\n\n"

// outcome is how an answer ends, gathered from the events of its turn.
type outcome struct {
	calls []bridge.ToolCall // of the last message
	usage bridge.Usage      // what was reported; once the turn has ended, all of it
	end   bridge.EndReason  // "" until then
	// finish is why the model stopped speaking, as far as that matters to the
	// client: "length", "content_filter" or "".
	finish string
}

func (o *outcome) note(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.MessageDone:
		if e.AgentID == "" {
			o.calls = e.Calls
		}
	case bridge.UsageReported:
		o.usage = o.usage.Add(e.Usage)
		o.finish = finishes[e.Finish]
	case bridge.TurnEnded:
		o.end = e.Reason
		if e.Usage != (bridge.Usage{}) {
			o.usage = e.Usage
		}
	default:
	}
}

// complete reports whether the answer is all there. An answer that failed or
// was aborted is not: an error follows.
func (o *outcome) complete() bool { return o.end == bridge.EndDone || o.end == bridge.EndTools }

// incomplete is the error for a turn that ended without one, though it is not
// complete.
func (o *outcome) incomplete() error {
	if o.end == bridge.EndAborted {
		return &bridge.Error{Code: bridge.CodeCanceled, Message: "the turn was aborted"}
	}
	return &bridge.Error{Code: bridge.CodeInternal, Message: "the turn ended without an answer"}
}

// live follows a turn whose answer is shown as it comes. A message ends with
// MessageDone; the ids of its pieces say nothing about that, as they change
// where a broken stream was continued.
type live struct {
	outcome
	stop     stopper
	thinking thinking
	arrived  int  // bytes of the message that is being made
	said     bool // an earlier message had text
}

// next returns the text and the reasoning that an event adds. Words of
// sub-agents are not part of the answer: they speak to their agent.
func (l *live) next(ev bridge.Event) (text, reasoning string) {
	l.note(ev)
	switch e := ev.(type) {
	case bridge.TextDelta:
		if e.AgentID == "" {
			text = l.stop.next(l.piece(e.Text))
		}
	case bridge.ReasoningDelta:
		if e.AgentID == "" {
			reasoning = l.thinking.piece(e.ID, e.Text)
		}
	case bridge.MessageDone:
		if e.AgentID == "" {
			return l.done(e)
		}
	case bridge.TurnEnded:
		text = l.stop.rest()
	default:
		reasoning = l.thinking.line(wire.Activity(ev))
	}
	return text, reasoning
}

// piece counts a piece of a message, and puts a gap before the first one of a
// further message.
func (l *live) piece(text string) string {
	first := l.arrived == 0
	l.arrived += len(text)
	if first && l.said && text != "" {
		return between + text
	}
	return text
}

// done returns what of a whole message has not arrived in pieces: all of it,
// where the model's provider does not stream.
func (l *live) done(e bridge.MessageDone) (text, reasoning string) {
	if l.arrived == 0 && !l.thinking.open {
		reasoning = l.thinking.piece(e.Message, e.Reasoning)
	}
	if n := l.arrived; n < len(e.Text) && utf8.RuneStart(e.Text[n]) {
		text = l.stop.next(l.piece(e.Text[n:]))
	}
	l.said = l.said || l.arrived > 0
	l.arrived, l.thinking.open = 0, false
	return text, reasoning
}

// thinking joins reasoning and lines about tools into one readable text.
type thinking struct {
	id   string // of the reasoning that arrives in pieces
	open bool   // the message that is being made has some
	last byte   // that was shown; 0 before the first
}

// piece adds to the reasoning with an id.
func (t *thinking) piece(id, text string) string {
	if text == "" {
		return ""
	}
	t.open = true
	if id == t.id {
		return t.add("", text)
	}
	t.id = id
	return t.add(between, text)
}

// line adds a line about a tool.
func (t *thinking) line(text string) string { return t.add("\n", text) }

// add puts a gap before the text if something stands in the same line.
func (t *thinking) add(gap, text string) string {
	if text == "" {
		return ""
	}
	if t.last != 0 && t.last != '\n' {
		text = gap + text
	}
	t.last = text[len(text)-1]
	return text
}

// whole gathers a turn whose answer is sent in one piece. What MessageDone
// says counts; the pieces before it only if the answer ends in them.
type whole struct {
	outcome
	stops     []string
	text      strings.Builder
	reasoning strings.Builder
	thinking  thinking

	stop    stopper         // of the message that is not finished
	pieces  strings.Builder // its text
	thought strings.Builder // its reasoning
}

func newWhole(stops []string) *whole { return &whole{stops: stops, stop: stopper{stops: stops}} }

// next takes an event; it reports whether the text has come to a stop
// sequence, so that the rest is not wanted.
func (w *whole) next(ev bridge.Event) (stopped bool) {
	w.note(ev)
	switch e := ev.(type) {
	case bridge.TextDelta:
		if e.AgentID != "" {
			break
		}
		w.pieces.WriteString(w.stop.next(e.Text))
		if w.stop.hit {
			w.close("")
			return true
		}
	case bridge.ReasoningDelta:
		if e.AgentID == "" {
			w.thought.WriteString(e.Text)
		}
	case bridge.MessageDone:
		if e.AgentID != "" {
			break
		}
		w.stop = stopper{stops: w.stops}
		w.pieces.Reset()
		w.pieces.WriteString(w.stop.next(e.Text))
		stopped = w.stop.hit
		w.close(e.Reasoning)
	case bridge.TurnEnded:
		w.close("") // a message that nobody has finished
	default:
		w.reasoning.WriteString(w.thinking.line(wire.Activity(ev)))
	}
	return stopped
}

// close makes the message, as far as it has come, part of the answer.
func (w *whole) close(reasoning string) {
	text := w.pieces.String() + w.stop.rest()
	w.reasoning.WriteString(w.thinking.add(between, firstOf(reasoning, w.thought.String())))
	if text != "" && w.text.Len() > 0 {
		w.text.WriteString(between)
	}
	w.text.WriteString(text)
	w.pieces.Reset()
	w.thought.Reset()
	w.stop = stopper{stops: w.stops}
}

// finishes are the reasons to stop that clients are told of, in the words of
// the providers and of this API.
var finishes = map[string]string{"length": "length", "max_tokens": "length", "content_filter": "content_filter", "refusal": "content_filter"}

// finishReason is the API's word for how an answer ended.
func finishReason(o *outcome, stopped, legacy bool) string {
	switch {
	case o.end == bridge.EndDone && !stopped && o.finish != "":
		return o.finish
	case o.end != bridge.EndTools || stopped:
		return "stop"
	case legacy:
		return "function_call"
	default:
		return "tool_calls"
	}
}

// firstOf is the first that says something.
func firstOf(list ...string) string {
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}
