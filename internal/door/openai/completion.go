package openai

import (
	"bytes"
	"encoding/json"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// completion is the answer to a request that does not stream.
type completion struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   chatUsage          `json:"usage"`
}

type completionChoice struct {
	Index        int               `json:"index"`
	Message      completionMessage `json:"message"`
	Logprobs     *struct{}         `json:"logprobs"`
	FinishReason string            `json:"finish_reason"`
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
	ID       string             `json:"id"`
	Type     string             `json:"type"`
	Function completionFunction `json:"function"`
}

type completionFunction struct {
	Name      string `json:"name"`
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

func usageOf(u bridge.Usage) chatUsage {
	out := chatUsage{Prompt: u.InputTokens, Completion: u.OutputTokens, Total: u.InputTokens + u.OutputTokens}
	out.PromptDetails.Cached = u.CacheRead
	out.CompletionDetails.Reasoning = u.ReasoningTokens
	return out
}

// completionMessage returns the gathered answer in the API's words.
func (w *whole) completionMessage(finish string) completionMessage {
	m := completionMessage{Role: "assistant", ReasoningContent: w.reasoning.String()}
	switch finish {
	case "tool_calls":
		for _, c := range w.calls {
			m.ToolCalls = append(m.ToolCalls, completionCall{ID: c.ID, Type: "function", Function: functionOf(c)})
		}
	case "function_call":
		f := functionOf(w.calls[0])
		m.FunctionCall = &f
	}
	if text := w.text.String(); text != "" || finish == "stop" {
		m.Content = &text
	}
	return m
}

func functionOf(c bridge.ToolCall) completionFunction {
	return completionFunction{Name: c.Name, Arguments: argumentsOf(c)}
}

// argumentsOf returns the arguments of a call as JSON text.
func argumentsOf(c bridge.ToolCall) string {
	switch args := c.Args.(type) {
	case nil:
		return "{}"
	case string: // what the model wrote was not JSON
		return args
	default:
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if enc.Encode(args) != nil {
			return "{}"
		}
		return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
	}
}
