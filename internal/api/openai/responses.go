package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// responses is POST /v1/responses.
func (d *door) responses(w http.ResponseWriter, r *http.Request) error {
	var req responseRequest
	if err := wire.Decode(w, r, d.opts.MaxBody, &req); err != nil {
		return err
	}
	c, tools, err := req.chat()
	if err != nil {
		return err
	}
	model, err := d.resolve(w, r, req.Model)
	if err != nil {
		return err
	}
	req.Model = model.Name // as the API answers with the model that an alias means
	c.Model, c.Profile, c.Worker = model.ID, model.Profile, model.Worker
	if effort := req.Reasoning.Effort; effort != nil {
		c.Effort = *effort
		if err := checkEffort("reasoning.effort", c.Effort, model); err != nil {
			return err
		}
	}
	wire.NoticeIgnored(w, req.ignored())
	if len(tools.dropped) > 0 {
		d.opts.Logger.DebugContext(r.Context(), "openai.tools_dropped: they do not run in the client", "kinds", tools.dropped)
	}
	id := d.id(responsePrefix)
	if req.stored() {
		c.Answer = id
	}
	a := &responseAnswer{
		Answer: wire.Answer{Chat: c}, object: req.object(id, d.now().Unix()), tools: tools, now: d.now,
		sealed: slices.Contains(req.Include, "reasoning.encrypted_content"),
	}
	if req.Stream {
		a.out = wire.NewStream(w, r)
	}
	err = a.Run(r.Context(), d.svc, a, a.out, d.opts.KeepAlive)
	if c.Previous != "" && bridge.CodeOf(err) == bridge.CodeNotFound {
		err = &named{err: err, param: "previous_response_id", code: "previous_response_not_found"}
	}
	switch {
	case err == nil && a.out == nil:
		wire.JSON(w, http.StatusOK, a.object)
	case err != nil && !a.begun:
		return err
	case err != nil:
		wire.LogFailure(d.opts.Logger, err)
		a.fail(err)
	}
	return nil
}

// errorEvent is the API's error event. Libraries read the error beside the type, as
// documented, or below it.
type errorEvent struct {
	Type     string      `json:"type"`
	Sequence int         `json:"sequence_number"`
	Code     *string     `json:"code"`
	Message  string      `json:"message"`
	Param    *string     `json:"param"`
	Error    errorObject `json:"error"`
}

// fail ends a stream. Clients read the error event or the failed response.
func (a *responseAnswer) fail(err error) {
	body := errorBody(err).Error
	a.out.Add("error", errorEvent{"error", a.sequence, body.Code, body.Message, body.Param, body})
	a.sequence++
	e := bridge.AsError(err)
	a.closeThought(statusIncomplete)
	a.closeMessage(statusIncomplete)
	a.object.Status, a.object.Output = statusFailed, append(a.object.Output, a.items...)
	if a.Usage != (bridge.Usage{}) {
		a.object.Usage = newUsage(a.Usage)
	}
	a.object.Error = &responseError{Code: failureCode(e), Message: failureMessage(e, body.Message)}
	a.lifecycle("response.failed")
	_ = a.out.Flush() // the client has left
}

// failureCode is the error code of a failed response. Codex tries again after all
// but invalid_prompt and insufficient_quota.
func failureCode(e *bridge.Error) string {
	if e.Code == bridge.CodeProvider {
		switch {
		case e.Status == http.StatusTooManyRequests:
			return "rate_limit_exceeded"
		case 400 <= e.Status && e.Status < 500 && e.Status != http.StatusRequestTimeout:
			return "invalid_prompt"
		}
	}
	switch kinds[e.Code].typ {
	case "", typeServer:
		return typeServer
	case typeRateLimit:
		return "rate_limit_exceeded"
	case typeQuota:
		return typeQuota
	default:
		return "invalid_prompt"
	}
}

// failureMessage adds how long to wait, in the words that Codex looks for.
func failureMessage(e *bridge.Error, text string) string {
	if e.RetryAfter <= 0 || failureCode(e) != "rate_limit_exceeded" {
		return text
	}
	return fmt.Sprintf("%s Please try again in %.3gs.", text, e.RetryAfter.Round(time.Millisecond).Seconds())
}

// responseEvent is any other event of a stream. Its type tells which fields count.
type responseEvent struct {
	Type         string  `json:"type"`
	Sequence     int     `json:"sequence_number"`
	ItemID       string  `json:"item_id,omitempty"`
	OutputIndex  int     `json:"output_index"`
	ContentIndex *int    `json:"content_index,omitempty"`
	SummaryIndex *int    `json:"summary_index,omitempty"`
	Item         any     `json:"item,omitempty"`
	Part         any     `json:"part,omitempty"`
	Name         string  `json:"name,omitempty"`
	Delta        *string `json:"delta,omitempty"`
	Text         *string `json:"text,omitempty"`
	Arguments    *string `json:"arguments,omitempty"`
	Input        *string `json:"input,omitempty"`
	Logprobs     *[]any  `json:"logprobs,omitempty"`
}

// open is an item that is being written; without one it is nil.
type open[T any] struct {
	item  *T
	index int
	text  strings.Builder
}

// take returns the text so far.
func (o *open[T]) take() string {
	defer o.text.Reset()
	return o.text.String()
}

// responseAnswer makes the items of an answer and, in a stream, their events.
type responseAnswer struct {
	wire.Answer
	object responseObject // as the client asked for it; at the end, the answer
	tools  *responseTools
	sealed bool // the client asked for encrypted reasoning
	now    func() time.Time

	items   []any // pointers, in order
	message open[messageItem]
	thought open[reasoningItem] // its last part is being written
	of      string              // what that part comes from

	out      *wire.Stream // nil: the answer is sent in one piece
	begun    bool
	sequence int
}

// Add writes what an event adds.
func (a *responseAnswer) Add(d wire.Delta) {
	if d.Reasoning != "" {
		a.think(d.Of, d.Reasoning)
	}
	if d.Text != "" {
		a.write(d.Text)
	}
	if d.MessageEnd {
		a.closeThought(statusCompleted)
		a.closeMessage(statusCompleted)
	}
}

// KeepAlive shows a sign of life, and begins the stream if necessary.
func (a *responseAnswer) KeepAlive() {
	switch {
	case a.out == nil:
	case a.begun:
		a.out.Comment("keep-alive")
	default:
		a.begin()
	}
}

// Finish adds the tool calls, if the turn waits for them, and the usage.
func (a *responseAnswer) Finish() {
	if a.End == bridge.EndTools {
		for _, call := range a.Calls {
			a.call(call)
		}
	}
	if a.out != nil {
		a.begin()
	}
	o := &a.object
	o.Status, o.Usage, o.CompletedAt = statusCompleted, newUsage(a.Usage), new(a.now().Unix())
	o.Output = append(o.Output, a.items...)
	if a.End == bridge.EndDone && a.FinishReason != "" {
		reason := a.FinishReason
		if reason == "length" {
			reason = "max_output_tokens"
		}
		o.Status, o.IncompleteDetails, o.CompletedAt = statusIncomplete, &incompleteness{reason}, nil
	}
	if a.out != nil {
		a.lifecycle("response." + o.Status)
	}
}

// write adds a piece to a message.
func (a *responseAnswer) write(text string) {
	m := &a.message
	if m.item == nil {
		a.closeThought(statusCompleted)
		m.item = &messageItem{ID: a.nextID("msg"), Type: "message", Status: statusRunning, Role: "assistant", Content: []outputText{}}
		m.index = a.added(m.item)
		a.event(m.index, responseEvent{Type: "response.content_part.added", ItemID: m.item.ID, ContentIndex: new(0), Part: newText("")})
	}
	m.text.WriteString(text)
	a.event(m.index, responseEvent{Type: "response.output_text.delta", ItemID: m.item.ID, ContentIndex: new(0), Delta: &text, Logprobs: &[]any{}})
}

// closeMessage ends the open message. An incomplete one has no event.
func (a *responseAnswer) closeMessage(status string) {
	m, index := a.message.item, a.message.index
	if m == nil {
		return
	}
	text := a.message.take()
	a.message.item, m.Status, m.Content = nil, status, []outputText{newText(text)}
	if status == statusCompleted {
		a.event(index, responseEvent{Type: "response.output_text.done", ItemID: m.ID, ContentIndex: new(0), Text: &text, Logprobs: &[]any{}})
		a.event(index, responseEvent{Type: "response.content_part.done", ItemID: m.ID, ContentIndex: new(0), Part: m.Content[0]})
		a.done(index, m)
	}
}

// think adds a piece of reasoning, or of what takes its place.
func (a *responseAnswer) think(of, text string) {
	t := &a.thought
	if t.item == nil {
		t.item = &reasoningItem{ID: a.nextID("rs"), Type: "reasoning", Summary: []summaryText{}}
		if a.sealed {
			t.item.Encrypted = json.RawMessage("null")
		}
		t.index = a.added(t.item)
	}
	if len(t.item.Summary) == 0 || a.of != of {
		a.closePart(statusCompleted)
		a.of = of
		part := summaryText{Type: "summary_text"}
		t.item.Summary = append(t.item.Summary, part)
		a.event(t.index, responseEvent{Type: "response.reasoning_summary_part.added", ItemID: t.item.ID, SummaryIndex: new(len(t.item.Summary) - 1), Part: part})
	}
	t.text.WriteString(text)
	a.event(t.index, responseEvent{Type: "response.reasoning_summary_text.delta", ItemID: t.item.ID, SummaryIndex: new(len(t.item.Summary) - 1), Delta: &text})
}

func (a *responseAnswer) closePart(status string) {
	t, last := a.thought.item, len(a.thought.item.Summary)-1
	if last < 0 {
		return
	}
	text := a.thought.take()
	t.Summary[last].Text = text
	if status == statusCompleted {
		index := a.thought.index
		a.event(index, responseEvent{Type: "response.reasoning_summary_text.done", ItemID: t.ID, SummaryIndex: &last, Text: &text})
		a.event(index, responseEvent{Type: "response.reasoning_summary_part.done", ItemID: t.ID, SummaryIndex: &last, Part: t.Summary[last]})
	}
}

func (a *responseAnswer) closeThought(status string) {
	t := a.thought.item
	if t == nil {
		return
	}
	a.closePart(status)
	a.thought.item, t.Status = nil, status
	if status == statusCompleted {
		a.done(a.thought.index, t)
	}
}

// call writes down a call in the form in which the client declared the tool.
func (a *responseAnswer) call(c bridge.ToolCall) {
	tool, ok := a.tools.calls[c.Name]
	if !ok {
		tool = responseTool{toolName: toolName{name: c.Name}}
	}
	item := &callItem{Status: statusRunning, CallID: c.ID, Name: tool.name, Namespace: tool.namespace}
	text, events, done := "", "", responseEvent{}
	switch tool.kind {
	case toolFunction:
		text, events = argumentsOf(c), "response.function_call_arguments"
		item.ID, item.Type, item.Arguments = a.nextID("fc"), "function_call", ""
		done = responseEvent{Name: tool.name, Arguments: &text}
	case toolCustom:
		text, events = freeformOf(c), "response.custom_tool_call_input"
		item.ID, item.Type, item.Input = a.nextID("ctc"), "custom_tool_call", new("")
		done = responseEvent{Input: &text}
	case toolSearch:
		item.ID, item.Type, item.Name, item.Namespace, item.Execution, item.Arguments = a.nextID("tsc"), "tool_search_call", "", "", "client", c.Args
	}
	index := a.added(item)
	if events != "" {
		a.event(index, responseEvent{Type: events + ".delta", ItemID: item.ID, Delta: &text})
		done.Type, done.ItemID = events+".done", item.ID
		a.event(index, done)
	}
	item.Status = statusCompleted
	switch tool.kind {
	case toolFunction:
		item.Arguments = text
	case toolCustom:
		item.Input = &text
	case toolSearch:
	}
	a.done(index, item)
}

// nextID names the next item.
func (a *responseAnswer) nextID(prefix string) string {
	return itemID(prefix, a.object.ID, len(a.items))
}

func (a *responseAnswer) added(item any) (index int) {
	index = len(a.items)
	a.items = append(a.items, item)
	a.event(index, responseEvent{Type: "response.output_item.added", Item: item})
	return index
}

func (a *responseAnswer) done(index int, item any) {
	a.event(index, responseEvent{Type: "response.output_item.done", Item: item})
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

// begin sends the first events. Before them an error has its own status.
func (a *responseAnswer) begin() {
	if !a.begun {
		a.begun = true
		a.lifecycle("response.created", "response.in_progress")
	}
}

// lifecycle sends the response under the given types, encoded once.
func (a *responseAnswer) lifecycle(types ...string) {
	object := wire.Encode(a.object)
	for _, typ := range types {
		a.out.Add(typ, struct {
			Type     string          `json:"type"`
			Sequence int             `json:"sequence_number"`
			Response json.RawMessage `json:"response"`
		}{typ, a.sequence, object})
		a.sequence++
	}
}

// event sends an event about an item, in a stream.
func (a *responseAnswer) event(index int, e responseEvent) {
	if a.out == nil {
		return
	}
	a.begin()
	e.Sequence, e.OutputIndex = a.sequence, index
	a.sequence++
	a.out.Add(e.Type, e)
}
