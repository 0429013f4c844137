package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// messageBody is an answer as a whole, and what a stream begins with.
type messageBody struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"` // as the client called it
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

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type thinkingContent struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type toolContent struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

func newMessage(id, model string, u usage) messageBody {
	return messageBody{ID: id, Type: "message", Role: "assistant", Model: model, Content: []any{}, Usage: u}
}

// whole answers with one JSON document.
func (d *door) whole(w http.ResponseWriter, r *http.Request, p *prompt, id string) {
	body := newMessage(id, p.model, usage{})
	a := newAnswer(p, &collector{to: &body})
	if err := d.collect(r.Context(), p, a); err != nil {
		d.fail(w, r, err)
		return
	}
	body.Usage = a.used(promptTokens(&p.chat))
	body.StopReason, body.StopSequence = new(a.stopReason()), orNull(a.cut.matched)
	wire.JSON(w, http.StatusOK, body)
}

func (d *door) collect(ctx context.Context, p *prompt, a *answer) error {
	for ev, err := range d.svc.Answer(ctx, p.chat) {
		if err != nil {
			return err
		}
		if a.next(ev); a.enough() && len(a.calls) > 0 {
			// A last message is complete anyway, and its usage is about to
			// come; after any other one the turn would go on.
			return nil
		}
	}
	return a.failure()
}

// nothing answers a request for at most no tokens, which elsewhere fills a
// cache. There is none to fill.
func (d *door) nothing(w http.ResponseWriter, r *http.Request, p *prompt, id string) {
	u := usage{Input: promptTokens(&p.chat)}
	if p.stream {
		s := newStream(w, r, id, p.model)
		s.input = u.Input
		s.end(stopMaxTokens, "", u)
		_, _ = s.flush() // nobody is left to tell
		return
	}
	body := newMessage(id, p.model, u)
	body.StopReason = new(stopMaxTokens)
	wire.JSON(w, http.StatusOK, body)
}

// used is the usage as this API counts it: its input tokens are those that the
// provider's cache had nothing to do with, while the runtime's are all. Where
// the provider does not count, an estimate stands in.
func (a *answer) used(estimate int64) usage {
	u := usage{Input: a.usage.InputTokens, Output: a.usage.OutputTokens, CacheRead: a.usage.CacheRead, CacheWrite: a.usage.CacheWrite}
	if u.Input == 0 && u.CacheRead+u.CacheWrite == 0 {
		u.Input = estimate
	}
	if cached := u.CacheRead + u.CacheWrite; u.Input >= cached {
		u.Input -= cached
	}
	if u.Output == 0 {
		u.Output = (a.wrote + 3) / 4
	}
	if n := a.usage.ReasoningTokens; n > 0 {
		u.Details = &outputDetails{n}
	}
	return u
}

// collector is the sink of an answer that is taken whole.
type collector struct {
	to   *messageBody
	text bytes.Buffer
}

func (c *collector) open(k kind, call *bridge.ToolCall) {
	c.text.Reset()
	if k == toolBlock {
		c.to.Content = append(c.to.Content, toolContent{"tool_use", toolID(call.ID), call.Name, arguments(call.Args)})
	}
}

func (c *collector) piece(_ kind, text string) { c.text.WriteString(text) }

func (c *collector) close(k kind) {
	switch k {
	case textBlock:
		c.to.Content = append(c.to.Content, textContent{"text", c.text.String()})
	case thinkingBlock:
		c.to.Content = append(c.to.Content, thinkingContent{"thinking", c.text.String(), signature})
	case toolBlock, noBlock:
	}
}

// arguments is the input of a tool: an object, even of one that takes none.
func arguments(args any) json.RawMessage {
	if args == nil {
		return json.RawMessage("{}")
	}
	return encode(args)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
