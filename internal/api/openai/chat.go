package openai

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// completion is a whole answer, or a chunk of a stream.
type completion struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   any                `json:"usage,omitempty"`
}

type completionChoice struct {
	Index        int                `json:"index"`
	Message      *completionMessage `json:"message,omitempty"`
	Delta        any                `json:"delta,omitempty"`
	Logprobs     *struct{}          `json:"logprobs"`
	FinishReason *string            `json:"finish_reason"`
}

type completionMessage struct {
	Role             string              `json:"role"`
	Content          *string             `json:"content"`
	Refusal          *string             `json:"refusal"`
	ReasoningContent string              `json:"reasoning_content,omitempty"`
	ToolCalls        []completionCall    `json:"tool_calls,omitempty"`
	FunctionCall     *completionFunction `json:"function_call,omitempty"`
}

type completionCall struct {
	Index    *int               `json:"index,omitempty"` // in a stream
	ID       string             `json:"id,omitempty"`
	Type     string             `json:"type,omitempty"`
	Function completionFunction `json:"function"`
}

type completionFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatUsage struct {
	Prompt        int64 `json:"prompt_tokens"`
	Completion    int64 `json:"completion_tokens"`
	Total         int64 `json:"total_tokens"`
	PromptDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func usageOf(u bridge.Usage) *chatUsage {
	out := &chatUsage{Prompt: u.InputTokens, Completion: u.OutputTokens, Total: u.InputTokens + u.OutputTokens}
	out.PromptDetails.Cached = u.CacheRead
	out.CompletionDetails.Reasoning = u.ReasoningTokens
	return out
}

// chat is POST /v1/chat/completions.
func (d *door) chat(w http.ResponseWriter, r *http.Request) error {
	var req chatRequest
	if err := wire.Decode(w, r, d.opts.MaxBody, &req); err != nil {
		return err
	}
	model, err := d.resolve(w, r, req.Model)
	if err != nil {
		return err
	}
	c, dropped, err := req.chat(model)
	if err != nil {
		return err
	}
	wire.NoticeIgnored(w, wire.Members(req.Unknown))
	if len(dropped) > 0 {
		d.opts.Logger.DebugContext(r.Context(), "openai.tools_dropped: only functions can be called", "kinds", dropped)
	}
	a := &chatAnswer{
		Answer: wire.Answer{Chat: c, Stop: wire.Stopper{Stops: req.Stop}}, legacy: req.legacy(), withUsage: req.StreamOptions.IncludeUsage,
		body: completion{ID: d.id("chatcmpl-"), Object: "chat.completion", Created: d.now().Unix(), Model: model.Name}, // an alias is answered by the model that it means
	}
	if req.Stream {
		a.out, a.body.Object = wire.NewStream(w, r), "chat.completion.chunk"
	}
	err = a.Run(r.Context(), d.svc, a, a.out, d.opts.KeepAlive)
	switch {
	case err == nil && a.out == nil:
		wire.JSON(w, http.StatusOK, a.body)
	case err != nil && !a.begun && (a.out == nil || !a.out.Started()):
		return err
	case err != nil:
		wire.LogFailure(d.opts.Logger, err)
		a.out.Add("", errorBody(err))
		_ = a.out.Data("[DONE]") // the client has left
	}
	return nil
}

// chatAnswer writes an answer as a completion or as its chunks.
type chatAnswer struct {
	wire.Answer
	flow      flow
	legacy    bool // the client speaks of functions, not of tools
	withUsage bool
	body      completion
	text      strings.Builder
	reasoning strings.Builder

	out   *wire.Stream // nil: the answer is sent in one piece
	begun bool         // the role has been sent
}

// Add writes what an event adds.
func (a *chatAnswer) Add(d wire.Delta) {
	text, reasoning := a.flow.next(d)
	if a.out == nil {
		a.text.WriteString(text)
		a.reasoning.WriteString(reasoning)
		return
	}
	if reasoning != "" {
		a.send(chunkDelta{ReasoningContent: reasoning}, "")
	}
	if text != "" {
		a.send(chunkDelta{Content: text}, "")
	}
}

// KeepAlive sends a comment.
func (a *chatAnswer) KeepAlive() {
	if a.out != nil {
		a.out.Comment("keep-alive")
	}
}

// Finish adds the tool calls, how the answer ended, and the usage.
func (a *chatAnswer) Finish() {
	reason := finishReason(&a.Answer, a.legacy)
	if a.out != nil {
		a.finishStream(reason)
		return
	}
	m := completionMessage{Role: "assistant", ReasoningContent: a.reasoning.String()}
	switch reason {
	case "tool_calls":
		for _, c := range a.Calls {
			m.ToolCalls = append(m.ToolCalls, completionCall{ID: c.ID, Type: "function", Function: completionFunction{c.Name, argumentsOf(c)}})
		}
	case "function_call":
		m.FunctionCall = &completionFunction{a.Calls[0].Name, argumentsOf(a.Calls[0])}
	}
	if text := a.text.String(); text != "" || reason == "stop" {
		m.Content = &text
	}
	a.body.Usage = usageOf(a.Usage)
	a.body.Choices = []completionChoice{{Message: &m, FinishReason: &reason}}
}

// chunkDelta is what a chunk adds to the message.
type chunkDelta struct {
	ReasoningContent string              `json:"reasoning_content,omitempty"`
	Content          string              `json:"content,omitempty"`
	ToolCalls        []completionCall    `json:"tool_calls,omitempty"`
	FunctionCall     *completionFunction `json:"function_call,omitempty"`
}

func (a *chatAnswer) finishStream(reason string) {
	switch reason {
	case "tool_calls":
		for i, c := range a.Calls {
			a.send(chunkDelta{ToolCalls: []completionCall{{Index: &i, ID: c.ID, Type: "function", Function: completionFunction{Name: c.Name}}}}, "")
			a.send(chunkDelta{ToolCalls: []completionCall{{Index: &i, Function: completionFunction{Arguments: argumentsOf(c)}}}}, "")
		}
	case "function_call":
		a.send(chunkDelta{FunctionCall: &completionFunction{Name: a.Calls[0].Name}}, "")
		a.send(chunkDelta{FunctionCall: &completionFunction{Arguments: argumentsOf(a.Calls[0])}}, "")
	}
	a.send(chunkDelta{}, reason)
	if a.withUsage {
		a.body.Choices, a.body.Usage = []completionChoice{}, usageOf(a.Usage)
		a.out.Add("", a.body)
	}
	a.out.Append("", []byte("[DONE]"))
}

// send sends a chunk, and the role before the first. Only the last has a reason.
func (a *chatAnswer) send(delta any, reason string) {
	if !a.begun {
		a.begun = true
		a.send(json.RawMessage(`{"role":"assistant","content":"","refusal":null}`), "")
	}
	a.body.Choices = []completionChoice{{Delta: delta, FinishReason: orNull(reason)}}
	if a.withUsage { // clients that ask for the usage expect it in every chunk
		a.body.Usage = json.RawMessage("null")
	}
	a.out.Add("", a.body)
}

// between separates the messages of one answer. Only agents, which speak
// before and after they use their tools, say more than one.
const between = "\n\n"

// flow joins the messages of an answer into one text, and its reasoning into one.
type flow struct {
	said    bool // the current message has text
	earlier bool // an earlier one had
	of      string
	last    byte // of the reasoning; 0 before the first
}

// next returns what a delta adds to both texts.
func (f *flow) next(d wire.Delta) (text, reasoning string) {
	if d.Reasoning != "" {
		reasoning = f.think(d)
	}
	if text = d.Text; text != "" && !f.said {
		f.said = true
		if f.earlier {
			text = between + text
		}
	}
	if d.MessageEnd {
		f.earlier, f.said = f.earlier || f.said, false
	}
	return text, reasoning
}

// think puts a gap before the reasoning if something stands in the same line.
func (f *flow) think(d wire.Delta) string {
	gap := between
	switch d.Of {
	case wire.OfActivity:
		gap = "\n"
	case f.of:
		gap = ""
	default:
		f.of = d.Of
	}
	text := d.Reasoning
	if f.last != 0 && f.last != '\n' {
		text = gap + text
	}
	f.last = text[len(text)-1]
	return text
}

// finishReason is the API's word for how an answer ended.
func finishReason(a *wire.Answer, legacy bool) string {
	stopped := a.Stop.Hit != ""
	switch {
	case a.End == bridge.EndDone && !stopped && a.FinishReason != "":
		return a.FinishReason
	case a.End != bridge.EndTools || stopped:
		return "stop"
	case legacy && len(a.Calls) > 0:
		return "function_call"
	default:
		return "tool_calls"
	}
}

// argumentsOf returns the arguments of a call as JSON text.
func argumentsOf(c bridge.ToolCall) string {
	switch args := c.Args.(type) {
	case nil:
		return "{}"
	case string: // what the model wrote was not JSON
		return args
	default:
		return string(wire.Encode(args))
	}
}
