package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// chunkObject is a chunk as a struct, to hold the encoder against.
type chunkObject struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []chunkChoice `json:"choices"`
}

type chunkChoice struct {
	Index        int        `json:"index"`
	Delta        chunkDelta `json:"delta"`
	Logprobs     *struct{}  `json:"logprobs"`
	FinishReason *string    `json:"finish_reason"`
}

type chunkDelta struct {
	Content          *string     `json:"content,omitempty"`
	ReasoningContent *string     `json:"reasoning_content,omitempty"`
	ToolCalls        []chunkCall `json:"tool_calls,omitempty"`
}

type chunkCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func standard(t *testing.T, v any) string {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(buf.String(), "\n")
}

var awkward = []string{
	"", "plain", "é – 漢字 🎉", "\"quoted\" \\ /", "\x00\x01\x1f\x7f\b\f\n\r\t", "<a href='x'>&</a>",
	"\u2028\u2029", "cut \xc3", "\xff\xfe", "\ufffd", "a\xc3\x28b", "\xed\xa0\x80",
}

func TestChunksAreWhatEncodingJSONMakes(t *testing.T) {
	for _, s := range awkward {
		c := newChunks("id"+s, 17, "model"+s, false)
		want := chunkObject{ID: "id" + s, Object: "chat.completion.chunk", Created: 17, Model: "model" + s, Choices: []chunkChoice{{}}}
		check := func(name string, got []byte) {
			t.Helper()
			if w := standard(t, want); string(got) != w {
				t.Errorf("%s of %q:\n got %s\nwant %s", name, s, got, w)
			}
			want.Choices[0] = chunkChoice{}
		}
		want.Choices[0].Delta.Content = &s
		check("content", c.content(s))
		want.Choices[0].Delta.ReasoningContent = &s
		check("reasoning", c.reasoning(s))
		call := chunkCall{Index: 3, ID: "i" + s, Type: "function"}
		call.Function.Name = "n" + s
		want.Choices[0].Delta.ToolCalls = []chunkCall{call}
		check("call", c.call(3, "i"+s, "n"+s))
		call = chunkCall{Index: 12}
		call.Function.Arguments = s
		want.Choices[0].Delta.ToolCalls = []chunkCall{call}
		check("arguments", c.callArguments(12, s))
		want.Choices[0].FinishReason = &s
		check("finish", c.finish(s))
	}
}

func TestUsageChunk(t *testing.T) {
	u := usageOf(bridge.Usage{InputTokens: 9, OutputTokens: 8, CacheRead: 7, ReasoningTokens: 6})
	got := string(newChunks("a", 1, "m", true).usage(u))
	want := standard(t, struct {
		ID      string    `json:"id"`
		Object  string    `json:"object"`
		Created int64     `json:"created"`
		Model   string    `json:"model"`
		Choices []int     `json:"choices"`
		Usage   chatUsage `json:"usage"`
	}{"a", "chat.completion.chunk", 1, "m", []int{}, u})
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// nowhere is a client that costs nothing.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Flush()                      {}

// BenchmarkTextDelta is the hot path: one delta of text to one chunk, sent.
func BenchmarkTextDelta(b *testing.B) {
	s := &chatStream{out: wire.NewStream(nowhere{http.Header{}}, httptest.NewRequest(http.MethodPost, "/", nil)), chunks: newChunks("chatcmpl-1", 1, "gpt-5", false)}
	p := bridge.Piece{Event: bridge.TextDelta{Message: "m1", Text: " a few words"}}
	b.ReportAllocs()
	for b.Loop() {
		s.take(p, true)
		if err := s.out.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}
