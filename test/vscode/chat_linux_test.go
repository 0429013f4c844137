package vscode

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestChatTools: a tool call goes to the client, the result comes back, and the
// model sees the whole conversation.
func TestChatTools(t *testing.T) {
	w := sharedWindow(t)
	d, c := w.testbed, w.ready(t)
	d.vendor.setScript(func(_ context.Context, a *vendorRequest, say func(part)) {
		last := a.Messages[len(a.Messages)-1]
		if len(last.Parts) > 0 && last.Parts[0].Type == "toolResult" {
			say(part{Type: "text", Text: "It is " + last.Parts[0].Text + "."})
			return
		}
		say(part{Type: "toolCall", CallID: "call-1", Name: a.Tools[0].Name, Input: map[string]any{"city": "Bern"}})
	})
	body := chatRequest("gpt-test", "How is the weather in Bern?")
	body["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "get_weather", "description": "the weather",
		"parameters": map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}}}
	got := c.streams(t.Context(), t, body).all(t)
	if got.finish != "tool_calls" || got.calls["get_weather"] != `{"city":"Bern"}` {
		t.Fatalf("got %+v", got)
	}
	id := got.ids["get_weather"]
	body["messages"] = []any{
		map[string]any{"role": "user", "content": "How is the weather in Bern?"},
		map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": id, "type": "function",
			"function": map[string]any{"name": "get_weather", "arguments": `{"city":"Bern"}`}}}},
		map[string]any{"role": "tool", "tool_call_id": id, "content": "sunny"},
	}
	if got := c.streams(t.Context(), t, body).all(t); got.text != "It is sunny." || got.finish != "stop" {
		t.Errorf("got %+v", got)
	}
	heard := d.vendor.received()
	if last := heard[len(heard)-1]; !strings.Contains(last.text(), "How is the weather") {
		t.Errorf("the model got %+v", last.Messages)
	}
}

// TestChatWithoutStreaming also checks the usage and the system text.
func TestChatWithoutStreaming(t *testing.T) {
	w := sharedWindow(t)
	d, c := w.testbed, w.ready(t)
	status, body := c.ask(t, http.MethodPost, "/v1/chat/completions", chat{"model": "claude-test", "messages": []any{
		map[string]any{"role": "system", "content": "Be a cautious assistant."}, map[string]any{"role": "user", "content": "hello"}}})
	if status != http.StatusOK || !strings.Contains(body, "Hello from the model.") || !strings.Contains(body, `"prompt_tokens":11`) {
		t.Errorf("got %d %s", status, body)
	}
	heard := d.vendor.received()
	if len(heard) != 1 || heard[0].Model != "claude-test" || !strings.Contains(heard[0].text(), "Be a cautious assistant.") {
		t.Errorf("the model got %+v", heard)
	}
	if status, body := c.ask(t, http.MethodGet, "/v1/models", nil); status != http.StatusOK || !strings.Contains(body, `"gpt-test"`) || !strings.Contains(body, `"claude-test"`) {
		t.Errorf("models: %d %s", status, body)
	}
}

// TestChatErrorsHaveTheirStatus: an error of the model provider determines the
// status of the answer, even in the middle of its stream.
func TestChatErrorsHaveTheirStatus(t *testing.T) {
	w := sharedWindow(t)
	d := w.testbed
	c := w.ready(t)
	for name, tc := range map[string]struct {
		thrown part
		status int
	}{
		"throttled":  {part{Error: "slow down", Code: "Blocked"}, http.StatusTooManyRequests},
		"rate limit": {part{Error: "too many", Name: "ChatRateLimited"}, http.StatusTooManyRequests},
		"no model":   {part{Error: "gone", Code: "NotFound"}, http.StatusNotFound},
		"too long":   {part{Error: "Message exceeds token limit."}, http.StatusBadRequest},
		"broken":     {part{Error: "socket hang up"}, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			d.vendor.setScript(func(_ context.Context, _ *vendorRequest, say func(part)) { say(tc.thrown) })
			if status, body := c.ask(t, http.MethodPost, "/v1/chat/completions", chatRequest("gpt-test", "hello "+name)); status != tc.status {
				t.Errorf("got %d %s, want %d", status, body, tc.status)
			}
		})
	}
	d.vendor.setScript(nil)
	if got := c.streams(t.Context(), t, chatRequest("gpt-test", "hello again")).all(t); got.text != "Hello from the model." {
		t.Errorf("got %+v", got)
	}
	w.waitOn(t, "OK")
}

// TestDisconnectCancels: when a client disconnects, the provider's token is
// cancelled.
func TestDisconnectCancels(t *testing.T) {
	w := sharedWindow(t)
	d, c := w.testbed, w.ready(t)
	cancelled := make(chan struct{})
	d.vendor.setScript(func(ctx context.Context, _ *vendorRequest, say func(part)) {
		say(part{Type: "text", Text: "one "})
		<-ctx.Done()
		close(cancelled)
	})
	ctx, hangUp := context.WithCancel(t.Context())
	s := c.streams(ctx, t, chatRequest("gpt-test", "go on for ever"))
	for {
		got, done, err := s.next()
		if err != nil || done {
			t.Fatalf("ended early: %v", err)
		}
		if len(got.Choices) > 0 && got.Choices[0].Delta.Content != "" {
			break
		}
	}
	hangUp()
	select {
	case <-cancelled:
	case <-time.After(patience):
		t.Fatal("the provider's token was not cancelled")
	}
}
