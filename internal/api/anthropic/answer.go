package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// messageBody is an answer as a whole, and what a stream begins with.
type messageBody struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []any   `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        usage   `json:"usage"`
}

type usage struct {
	Input      int64          `json:"input_tokens"`
	CacheWrite int64          `json:"cache_creation_input_tokens"`
	CacheRead  int64          `json:"cache_read_input_tokens"`
	Output     int64          `json:"output_tokens"`
	Details    *outputDetails `json:"output_tokens_details,omitempty"`
}

type outputDetails struct {
	Thinking int64 `json:"thinking_tokens"`
}

// The content blocks of an answer, and the events of a stream.
type (
	textContent struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	thinkingContent struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}
	toolContent struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	startEvent struct {
		Type    string      `json:"type"`
		Message messageBody `json:"message"`
	}
	blockEvent struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block any    `json:"content_block,omitempty"`
		Delta any    `json:"delta,omitempty"`
	}
	blockDelta struct {
		Type      string `json:"type"`
		Text      string `json:"text,omitempty"`
		Thinking  string `json:"thinking,omitempty"`
		Signature string `json:"signature,omitempty"`
		JSON      string `json:"partial_json,omitempty"`
	}
	endEvent struct {
		Type  string   `json:"type"`
		Delta endDelta `json:"delta"`
		Usage usage    `json:"usage"`
	}
	endDelta struct {
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	bareEvent struct {
		Type string `json:"type"`
	}
)

// kind is the kind of a content block that is being written.
type kind int

const (
	noBlock kind = iota
	textBlock
	thinkingBlock
)

// answer makes content blocks of a turn, for a stream or for one document.
type answer struct {
	wire.Answer
	thinking display
	body     messageBody
	input    int64 // tokens of the prompt, estimated
	wrote    int64 // bytes, for an estimate if no usage is reported

	current kind            // of the open block
	text    strings.Builder // of the open block, without a stream

	out   *wire.Stream // nil: the answer is sent as one document
	begun bool
	index int // of the open block, or of the next one
}

func newAnswer(p *prompt, id string, out *wire.Stream) *answer {
	return &answer{
		Answer: wire.Answer{Chat: p.chat, Stop: wire.Stopper{Stops: p.stops}}, thinking: p.thinking, out: out, input: promptTokens(&p.chat),
		body: messageBody{ID: id, Type: "message", Role: "assistant", Model: p.model, Content: []any{}},
	}
}

// answer runs the request. One for no tokens would fill a cache at Anthropic; here
// it does nothing.
func (d *door) answer(w http.ResponseWriter, r *http.Request, p *prompt) error {
	var out *wire.Stream
	if p.stream {
		out = wire.NewStream(w, r)
	}
	a := newAnswer(p, d.id("msg_"), out)
	var err error
	if p.chat.MaxTokens == 0 {
		a.finish("max_tokens", usage{Input: a.input})
		err = out.Flush()
	} else {
		err = a.Run(r.Context(), d.svc, a, out, d.opts.KeepAlive)
	}
	switch {
	case err == nil && out == nil:
		wire.JSON(w, http.StatusOK, a.body)
	case err != nil && (out == nil || !out.Started()): // unflushed bytes are dropped
		return err
	case err != nil:
		wire.LogFailure(d.opts.Logger, err)
		_ = out.Event("error", errorBody(err, w.Header().Get("Request-Id"))) // the client has left
	}
	return nil
}

// Add writes what an event adds. A new message begins a new block: an agent
// says several, and clients show blocks apart.
func (a *answer) Add(d wire.Delta) {
	if a.thinking != hidden {
		a.emit(thinkingBlock, d.Reasoning)
	}
	a.emit(textBlock, d.Text)
	if d.MessageEnd && a.current == textBlock {
		a.closeBlock()
	}
}

// Finish ends an answer that is complete.
func (a *answer) Finish() {
	a.closeBlock()
	if a.End == bridge.EndTools {
		for _, c := range a.Calls {
			a.wrote += 4 * valueTokens(c.Args)
			a.call(c)
		}
	}
	a.finish(a.stopReason(), a.used())
}

// KeepAlive shows a sign of life, if need be by beginning the message.
func (a *answer) KeepAlive() {
	if a.out != nil && !a.begin() {
		a.out.Add("ping", bareEvent{"ping"})
	}
}

func (a *answer) emit(k kind, text string) {
	if text == "" {
		return
	}
	if k != a.current {
		a.closeBlock()
		a.openBlock(k)
	}
	if k == thinkingBlock && a.thinking == omitted {
		return
	}
	a.wrote += int64(len(text))
	switch {
	case a.out == nil:
		a.text.WriteString(text)
	case k == thinkingBlock:
		a.block("content_block_delta", nil, blockDelta{Type: "thinking_delta", Thinking: text})
	default:
		a.block("content_block_delta", nil, blockDelta{Type: "text_delta", Text: text})
	}
}

func (a *answer) openBlock(k kind) {
	a.current = k
	a.text.Reset()
	switch {
	case a.out == nil:
	case k == thinkingBlock:
		a.block("content_block_start", thinkingContent{Type: "thinking"}, nil)
	default:
		a.block("content_block_start", textContent{Type: "text"}, nil)
	}
}

func (a *answer) closeBlock() {
	k := a.current
	a.current = noBlock
	switch {
	case k == noBlock:
	case a.out != nil:
		if k == thinkingBlock {
			a.block("content_block_delta", nil, blockDelta{Type: "signature_delta", Signature: signature})
		}
		a.stopBlock()
	case k == thinkingBlock:
		a.body.Content = append(a.body.Content, thinkingContent{"thinking", a.text.String(), signature})
	default:
		a.body.Content = append(a.body.Content, textContent{"text", a.text.String()})
	}
}

// call writes the block of a tool call. Its input is always an object.
func (a *answer) call(c bridge.ToolCall) {
	input := json.RawMessage("{}")
	if c.Args != nil {
		input = wire.Encode(c.Args)
	}
	if a.out == nil {
		a.body.Content = append(a.body.Content, toolContent{"tool_use", toolID(c.ID), c.Name, input})
		return
	}
	a.block("content_block_start", toolContent{"tool_use", toolID(c.ID), c.Name, json.RawMessage("{}")}, nil)
	a.block("content_block_delta", nil, blockDelta{Type: "input_json_delta", JSON: string(input)})
	a.stopBlock()
}

func (a *answer) block(name string, block, delta any) {
	a.begin()
	a.out.Add(name, blockEvent{Type: name, Index: a.index, Block: block, Delta: delta})
}

func (a *answer) stopBlock() {
	a.block("content_block_stop", nil, nil)
	a.index++
}

// begin starts the stream; it reports whether it had not begun before.
func (a *answer) begin() bool {
	if a.begun {
		return false
	}
	a.begun = true
	a.body.Usage.Input = a.input
	a.out.Add("message_start", startEvent{"message_start", a.body})
	a.out.Add("ping", bareEvent{"ping"})
	return true
}

func (a *answer) finish(reason string, u usage) {
	var sequence *string
	if a.Stop.Hit != "" {
		sequence = &a.Stop.Hit
	}
	if a.out == nil {
		a.body.StopReason, a.body.StopSequence, a.body.Usage = &reason, sequence, u
		return
	}
	a.begin()
	a.out.Add("message_delta", endEvent{"message_delta", endDelta{reason, sequence}, u})
	a.out.Add("message_stop", bareEvent{"message_stop"})
}

// stopReason is the API's word for how the answer ended.
func (a *answer) stopReason() string {
	switch {
	case a.Stop.Hit != "":
		return "stop_sequence"
	case a.End == bridge.EndTools && len(a.Calls) > 0:
		return "tool_use"
	case a.FinishReason == "length":
		return "max_tokens"
	case a.FinishReason == "content_filter":
		return "refusal"
	default:
		return "end_turn"
	}
}

// used is the usage as this API counts it: without the input tokens that a cache
// read or wrote. It is an estimate where the provider does not count.
func (a *answer) used() usage {
	u := usage{Input: a.Usage.InputTokens, Output: a.Usage.OutputTokens, CacheRead: a.Usage.CacheRead, CacheWrite: a.Usage.CacheWrite}
	cached := u.CacheRead + u.CacheWrite
	if u.Input == 0 && cached == 0 {
		u.Input = a.input
	}
	if u.Input >= cached {
		u.Input -= cached
	}
	if u.Output == 0 {
		u.Output = (a.wrote + 3) / 4
	}
	if n := a.Usage.ReasoningTokens; n > 0 {
		u.Details = &outputDetails{n}
	}
	return u
}
