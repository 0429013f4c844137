package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// responseOutput makes the items of an answer out of the events of a turn and
// tells the stream, if there is one, about each step. It belongs to one
// goroutine.
type responseOutput struct {
	outcome
	id      string // of the response
	tools   *responseTools
	sealed  bool            // the client asked for encrypted reasoning
	stream  *responseStream // nil: the client takes the answer in one piece
	items   []any           // in order; one that is open has its place already
	message *openMessage
	thought *openThought

	thinks bool            // reasoning of the message has been shown in pieces
	pieces strings.Builder // of reasoning, where nothing is shown yet
}

// openMessage is a message that is being written. It is whole when the event
// for that has come: its pieces may bear several names if the model's stream
// broke and was taken up again.
type openMessage struct {
	id    string
	index int
	text  strings.Builder
}

// openThought is a reasoning item that is being written; its last part is.
type openThought struct {
	id    string
	index int
	of    string // what the last part comes from
	parts []summaryText
	text  strings.Builder // of the last part
}

// next takes one event. Words of sub-agents are not part of the answer: they
// speak to their agent.
func (o *responseOutput) next(ev bridge.Event) {
	o.note(ev)
	switch e := ev.(type) {
	case bridge.TextDelta:
		// In one piece, only finished messages count: the pieces may be those
		// of one that was broken off.
		if e.AgentID == "" && o.stream != nil {
			o.write(e.Text)
		}
	case bridge.ReasoningDelta:
		switch {
		case e.AgentID != "":
		case o.stream == nil:
			o.pieces.WriteString(e.Text)
		default:
			o.thinks = true
			o.think("model "+e.ID, e.Text)
		}
	case bridge.MessageDone:
		if e.AgentID == "" {
			o.said(e)
		}
	case bridge.TurnEnded:
		o.closeThought()
		o.closeMessage()
		if e.Reason == bridge.EndTools {
			// Only now, because calls that a message names are the client's
			// to answer only if the turn waits for it.
			for _, call := range o.calls {
				o.call(call)
			}
		}
	default:
		o.think("activity", wire.Activity(ev))
	}
}

// write adds a piece to a message.
func (o *responseOutput) write(text string) {
	if text == "" {
		return
	}
	if o.message == nil {
		o.closeThought()
		m := &openMessage{id: o.place("msg"), index: len(o.items) - 1}
		o.message = m
		o.stream.added(m.index, messageItem{ID: m.id, Type: "message", Status: statusRunning, Role: "assistant", Content: []outputText{}})
		o.stream.event(&responseEvent{Type: "response.content_part.added", ItemID: m.id, OutputIndex: m.index, ContentIndex: new(0), Part: newText("")})
	}
	o.message.text.WriteString(text)
	o.stream.delta("response.output_text.delta", o.message.id, o.message.index, "content_index", 0, text)
}

// said ends a message. Its text is authoritative; what of it has not arrived
// in pieces is all of it where the model's provider does not stream.
func (o *responseOutput) said(e bridge.MessageDone) {
	if !o.thinks {
		o.think("model", firstOf(e.Reasoning, o.pieces.String()))
	}
	o.thinks = false
	o.pieces.Reset()
	shown := ""
	if o.message != nil {
		shown = o.message.text.String()
	}
	if rest, ok := strings.CutPrefix(e.Text, shown); ok {
		o.write(rest)
	} else if o.message != nil {
		o.message.text.Reset()
		o.message.text.WriteString(e.Text)
	}
	o.closeThought()
	o.closeMessage()
}

func (o *responseOutput) closeMessage() {
	m := o.message
	if m == nil {
		return
	}
	o.message = nil
	text := m.text.String()
	done := messageItem{ID: m.id, Type: "message", Status: statusCompleted, Role: "assistant", Content: []outputText{newText(text)}}
	o.items[m.index] = done
	o.stream.event(&responseEvent{Type: "response.output_text.done", ItemID: m.id, OutputIndex: m.index, ContentIndex: new(0), Text: &text, Logprobs: &[]any{}})
	o.stream.event(&responseEvent{Type: "response.content_part.done", ItemID: m.id, OutputIndex: m.index, ContentIndex: new(0), Part: done.Content[0]})
	o.stream.done(m.index, done)
}

// think adds a piece of reasoning, or of what takes its place.
func (o *responseOutput) think(of, text string) {
	if text == "" {
		return
	}
	t := o.thought
	if t == nil {
		t = &openThought{id: o.place("rs"), index: len(o.items) - 1}
		o.thought = t
		o.stream.added(t.index, o.reasoning(t, ""))
	}
	if len(t.parts) == 0 || t.of != of {
		o.closePart()
		t.of = of
		t.parts = append(t.parts, summaryText{Type: "summary_text"})
		o.stream.event(&responseEvent{Type: "response.reasoning_summary_part.added", ItemID: t.id, OutputIndex: t.index,
			SummaryIndex: new(len(t.parts) - 1), Part: summaryText{Type: "summary_text"}})
	}
	t.text.WriteString(text)
	o.stream.delta("response.reasoning_summary_text.delta", t.id, t.index, "summary_index", len(t.parts)-1, text)
}

func (o *responseOutput) closePart() {
	t := o.thought
	if len(t.parts) == 0 {
		return
	}
	last := len(t.parts) - 1
	text := t.text.String()
	t.text.Reset()
	t.parts[last].Text = text
	o.stream.event(&responseEvent{Type: "response.reasoning_summary_text.done", ItemID: t.id, OutputIndex: t.index, SummaryIndex: &last, Text: &text})
	o.stream.event(&responseEvent{Type: "response.reasoning_summary_part.done", ItemID: t.id, OutputIndex: t.index, SummaryIndex: &last, Part: t.parts[last]})
}

func (o *responseOutput) closeThought() {
	t := o.thought
	if t == nil {
		return
	}
	o.closePart()
	o.thought = nil
	done := o.reasoning(t, statusCompleted)
	o.items[t.index] = done
	o.stream.done(t.index, done)
}

func (o *responseOutput) reasoning(t *openThought, status string) reasoningItem {
	item := reasoningItem{ID: t.id, Type: "reasoning", Summary: slices.Clone(t.parts), Status: status}
	if item.Summary == nil {
		item.Summary = []summaryText{}
	}
	if o.sealed {
		item.Encrypted = json.RawMessage("null")
	}
	return item
}

// call writes down a call in the form in which the client declared the tool.
func (o *responseOutput) call(c bridge.ToolCall) {
	tool, ok := o.tools.calls[c.Name]
	if !ok {
		tool = responseTool{toolName: toolName{name: c.Name}}
	}
	switch tool.kind {
	case toolFunction:
		text := argumentsOf(c)
		item := functionCallItem{ID: o.place("fc"), Type: "function_call", Status: statusRunning, CallID: c.ID, Name: tool.name, Namespace: tool.namespace}
		index := len(o.items) - 1
		o.stream.added(index, item)
		o.stream.event(&responseEvent{Type: "response.function_call_arguments.delta", ItemID: item.ID, OutputIndex: index, Delta: &text})
		o.stream.event(&responseEvent{Type: "response.function_call_arguments.done", ItemID: item.ID, OutputIndex: index, Name: tool.name, Arguments: &text})
		item.Arguments, item.Status = text, statusCompleted
		o.items[index] = item
		o.stream.done(index, item)
	case toolCustom:
		text := freeformOf(c)
		item := customCallItem{ID: o.place("ctc"), Type: "custom_tool_call", Status: statusRunning, CallID: c.ID, Name: tool.name, Namespace: tool.namespace}
		index := len(o.items) - 1
		o.stream.added(index, item)
		o.stream.event(&responseEvent{Type: "response.custom_tool_call_input.delta", ItemID: item.ID, OutputIndex: index, Delta: &text})
		o.stream.event(&responseEvent{Type: "response.custom_tool_call_input.done", ItemID: item.ID, OutputIndex: index, Input: &text})
		item.Input, item.Status = text, statusCompleted
		o.items[index] = item
		o.stream.done(index, item)
	case toolSearch:
		item := searchCallItem{ID: o.place("tsc"), Type: "tool_search_call", Status: statusRunning, CallID: c.ID, Execution: "client", Arguments: c.Args}
		index := len(o.items) - 1
		o.stream.added(index, item)
		item.Status = statusCompleted
		o.items[index] = item
		o.stream.done(index, item)
	}
}

// place makes room for an item and names it.
func (o *responseOutput) place(prefix string) string {
	o.items = append(o.items, nil)
	return itemID(prefix, o.id, len(o.items)-1)
}

// freeformOf is the text for a tool that takes one; see freeform.
func freeformOf(c bridge.ToolCall) string {
	if fields, ok := c.Args.(map[string]any); ok {
		if text, ok := fields["input"].(string); ok {
			return text
		}
	}
	return argumentsOf(c)
}

// partial is the output so far, of an answer that will not be finished.
func (o *responseOutput) partial() []any {
	items := append([]any{}, o.items...)
	if m := o.message; m != nil {
		items[m.index] = messageItem{ID: m.id, Type: "message", Status: statusIncomplete, Role: "assistant", Content: []outputText{newText(m.text.String())}}
	}
	if t := o.thought; t != nil {
		item := o.reasoning(t, statusIncomplete)
		if n := len(item.Summary); n > 0 {
			item.Summary[n-1].Text = t.text.String()
		}
		items[t.index] = item
	}
	return items
}
