package vscode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// client calls the bridge as curl would.
type client struct {
	url  string
	home string // the bridge's home
}

// windows returns the files that announce the bridges of windows.
func (c *client) windows(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(c.home, "windows", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (c *client) request(ctx context.Context, t *testing.T, method, path string, body any) *http.Response {
	t.Helper()
	var r io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// ask sends a request and returns status and body.
func (c *client) ask(t *testing.T, method, path string, body any) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp := c.request(ctx, t, method, path, body)
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// chat is a request to /v1/chat/completions.
type chat map[string]any

func chatRequest(model, text string) chat {
	return chat{"model": model, "stream": true, "messages": []any{map[string]any{"role": "user", "content": text}}}
}

// chunk has the fields of a streamed chunk that the tests use.
type chunk struct {
	Object  string
	Choices []struct {
		Delta struct {
			Content   string
			ToolCalls []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	}
	Error *struct{ Message, Code string }
}

// stream is an answer as server-sent events.
type stream struct {
	resp *http.Response
	scan *bufio.Scanner
}

// streams sends a request and returns the answer, whose status must be 200.
func (c *client) streams(ctx context.Context, t *testing.T, body chat) *stream {
	t.Helper()
	resp := c.request(ctx, t, http.MethodPost, "/v1/chat/completions", body)
	t.Cleanup(func() { _ = resp.Body.Close() }) // may already be closed
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		data, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s, %s: %s", resp.Status, resp.Header.Get("Content-Type"), data)
	}
	return &stream{resp, bufio.NewScanner(resp.Body)}
}

// next returns the next chunk. done reports [DONE], err that the answer ended
// without it.
func (s *stream) next() (c chunk, done bool, err error) {
	for s.scan.Scan() {
		data, ok := strings.CutPrefix(s.scan.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return c, true, nil
		}
		return c, false, json.Unmarshal([]byte(data), &c)
	}
	if err := s.scan.Err(); err != nil {
		return c, false, err
	}
	return c, false, io.ErrUnexpectedEOF
}

// whole is a complete streamed answer.
type whole struct {
	text   string
	pieces int // number of chunks with text
	calls  map[string]string
	ids    map[string]string
	finish string
	usage  [2]int
	fault  string
}

// all reads the stream up to [DONE].
func (s *stream) all(t *testing.T) whole {
	t.Helper()
	w := whole{calls: map[string]string{}, ids: map[string]string{}}
	names := map[int]string{} // only the first piece of a call has its name
	for {
		c, done, err := s.next()
		if err != nil {
			t.Fatalf("the stream ended with %v after %+v", err, w)
		}
		if done {
			return w
		}
		if c.Error != nil {
			w.fault = c.Error.Code
			continue
		}
		if c.Object != "chat.completion.chunk" {
			t.Errorf("a chunk is a %q", c.Object)
		}
		if c.Usage != nil {
			w.usage = [2]int{c.Usage.PromptTokens, c.Usage.CompletionTokens}
		}
		for _, ch := range c.Choices {
			if ch.Delta.Content != "" {
				w.text += ch.Delta.Content
				w.pieces++
			}
			for _, tc := range ch.Delta.ToolCalls {
				if tc.ID != "" {
					names[tc.Index] = tc.Function.Name
					w.ids[tc.Function.Name] = tc.ID
				}
				w.calls[names[tc.Index]] += tc.Function.Arguments
			}
			if ch.FinishReason != "" {
				w.finish = ch.FinishReason
			}
		}
	}
}

// bus is a connection to the tool bus.
type bus struct {
	conn *websocket.Conn
	id   int
}

// bus connects to the tool bus at the address that the bridge announces.
func (c *client) bus(t *testing.T) *bus {
	t.Helper()
	var found struct{ RPC string }
	for _, file := range c.windows(t) {
		var w struct{ URL, RPC string }
		if err := json.Unmarshal([]byte(fileText(t, file)), &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if w.URL == c.url {
			found.RPC = w.RPC
		}
	}
	if found.RPC == "" {
		t.Fatalf("no file announces a window at %s", c.url)
	}
	address := found.RPC
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != nil {
		_ = resp.Body.Close() // the connection does not need it
	}
	conn.SetReadLimit(16 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() }) // the bridge may have ended
	return &bus{conn: conn}
}

type busError struct {
	Code    int
	Message string
	Data    map[string]any
}

// call makes one call and returns its result or error.
func (b *bus) call(t *testing.T, method string, params any) (map[string]any, *busError) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b.id++
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": b.id, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.conn.Write(ctx, websocket.MessageText, data); err != nil {
		t.Fatal(err)
	}
	for {
		_, data, err := b.conn.Read(ctx)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID     any
			Result map[string]any
			Error  *busError
		}
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		if m.ID != nil {
			return m.Result, m.Error
		}
	}
}

// mustCall makes a call that must succeed.
func (b *bus) mustCall(t *testing.T, method string, params any) map[string]any {
	t.Helper()
	r, e := b.call(t, method, params)
	if e != nil {
		t.Fatalf("%s: %+v", method, e)
	}
	return r
}
