package demomodel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := New(opts...)
	if err := s.Start(context.Background()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// send posts a body with the right key. The caller closes the answer.
func send(ctx context.Context, tb testing.TB, s *Server, body []byte) (*http.Response, error) {
	tb.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key())
	return http.DefaultClient.Do(req)
}

// got is an answer, taken apart.
type got struct {
	status  int
	header  http.Header
	body    string
	text    string
	thought string
	calls   []Call
	finish  string
	usage   *wireUsage
	chunks  int
	done    bool
	err     error // of reading the body
}

func post(tb testing.TB, s *Server, body []byte) got {
	tb.Helper()
	resp, err := send(tb.Context(), tb, s, body)
	if err != nil {
		return got{err: err}
	}
	b, err := io.ReadAll(resp.Body)
	if e := resp.Body.Close(); e != nil {
		tb.Error(e)
	}
	g := got{status: resp.StatusCode, header: resp.Header, body: string(b), err: err}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		g.readStream(tb)
	} else if resp.StatusCode == http.StatusOK && json.Valid(b) {
		g.readDocument(tb)
	}
	return g
}

type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int    `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Delta struct {
			Role      string     `json:"role"`
			Content   string     `json:"content"`
			Reasoning string     `json:"reasoning_content"`
			ToolCalls []wireCall `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *wireUsage `json:"usage"`
}

func (g *got) readStream(tb testing.TB) {
	tb.Helper()
	sc := bufio.NewScanner(strings.NewReader(g.body))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			g.done = true
			continue
		}
		var c chunk
		if json.Unmarshal([]byte(data), &c) != nil || c.ID == "" {
			continue // errors and malformed passages; tests look at the body
		}
		if c.Object != "chat.completion.chunk" || c.Created != created || !strings.HasPrefix(c.ID, "chatcmpl-") {
			tb.Errorf("odd chunk %s", data)
		}
		g.chunks++
		if c.Usage != nil {
			g.usage = c.Usage
		}
		if len(c.Choices) == 0 {
			continue
		}
		d := c.Choices[0].Delta
		if first := g.chunks == 1; c.Choices[0].FinishReason == nil && first != (d.Role == "assistant") {
			tb.Errorf("chunk %d has role %q", g.chunks, d.Role)
		}
		g.text += d.Content
		g.thought += d.Reasoning
		g.addCalls(d.ToolCalls)
		if c.Choices[0].FinishReason != nil {
			g.finish = *c.Choices[0].FinishReason
		}
	}
}

func (g *got) readDocument(tb testing.TB) {
	tb.Helper()
	var c completion
	if err := json.Unmarshal([]byte(g.body), &c); err != nil {
		tb.Fatal(err)
	}
	m := c.Choices[0].Message
	if m.Content != nil {
		g.text = *m.Content
	}
	g.thought = m.Reasoning
	g.addCalls(m.ToolCalls)
	g.finish, g.usage = *c.Choices[0].FinishReason, c.Usage
}

func (g *got) addCalls(calls []wireCall) {
	for _, c := range calls {
		g.calls = append(g.calls, Call{c.ID, c.Function.Name, c.Function.Arguments})
	}
}

// chat is a request under construction, shaped as the runtime shapes its own.
type chat struct {
	Model         string         `json:"model"`
	Messages      []chatMessage  `json:"messages"`
	Tools         []any          `json:"tools,omitempty"`
	ToolChoice    any            `json:"tool_choice,omitempty"`
	Format        any            `json:"response_format,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options,omitempty"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"`
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

const stamp = "<current_datetime>2026-01-02T03:04:05.678+00:00</current_datetime>\n\n"

// newChat is a streamed request of the agent profile, working in /w.
func newChat(user string, tools ...any) *chat {
	return &chat{
		Model: "m", Stream: true, StreamOptions: map[string]any{"include_usage": true}, Tools: tools,
		Messages: []chatMessage{
			{Role: "system", Content: "You work.\n<environment_context>\n* Current working directory: /w\n* Operating System: linux\n</environment_context>"},
			{Role: "user", Content: stamp + user},
		},
	}
}

func (c *chat) json(tb testing.TB) []byte {
	tb.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func (c *chat) request(tb testing.TB) *Request {
	tb.Helper()
	r, err := decodeRequest(c.json(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// round adds an assistant message with calls and the results of its tools.
func (c *chat) round(calls []Call, results ...string) {
	m := chatMessage{Role: "assistant"}
	for _, call := range calls {
		w := wireCall{ID: call.ID, Type: "function"}
		w.Function.Name, w.Function.Arguments = call.Name, call.Arguments
		m.ToolCalls = append(m.ToolCalls, w)
	}
	c.Messages = append(c.Messages, m)
	for i := len(results) - 1; i >= 0; i-- { // the runtime sends them as they finish
		c.Messages = append(c.Messages, chatMessage{Role: "tool", ToolCallID: calls[i].ID, Content: results[i]})
	}
}

// tool describes a function tool; arguments that end in ! are required.
func tool(name string, args ...string) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, a := range args {
		n, ok := strings.CutSuffix(a, "!")
		if ok {
			required = append(required, n)
		}
		kind := "string"
		if strings.HasPrefix(n, "-") {
			kind = "boolean"
		}
		properties[n] = map[string]any{"type": kind, "description": "What " + n + " is."}
	}
	return map[string]any{"type": "function", "function": map[string]any{
		"name": name, "description": "Does " + name + ".",
		"parameters": map[string]any{"type": "object", "properties": properties, "required": required},
	}}
}

// builtins are the tools that the runtime offers by default.
func builtins() []any {
	return []any{
		tool("bash", "command!", "description!", "shellId"), tool("view", "path!"), tool("create", "path!", "file_text!"),
		tool("edit", "path!", "old_str", "new_str"), tool("glob", "pattern!", "paths"), tool("grep", "pattern!", "paths", "output_mode", "-n"), tool("ask_user", "question!"),
		tool("task", "name!", "prompt!", "agent_type!", "description!"), tool("web_fetch", "url!"),
	}
}

// runtimeRequest is as large as what the runtime sends with its own tools.
func runtimeRequest(tb testing.TB) []byte {
	tb.Helper()
	c := newChat("hello", builtins()...)
	c.Messages[0].Content = strings.Repeat("Work well.\n", 3200)
	return c.json(tb)
}
