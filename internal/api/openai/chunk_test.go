package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

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

func streamedChat(w http.ResponseWriter) *chatAnswer {
	return &chatAnswer{out: wire.NewStream(w, httptest.NewRequest(http.MethodPost, "/", nil)), begun: true,
		body: completion{ID: "chatcmpl-1", Object: "chat.completion.chunk", Created: 17, Model: "gpt-5"}}
}

func TestUsageChunk(t *testing.T) {
	w := httptest.NewRecorder()
	a := streamedChat(w)
	a.withUsage, a.Usage = true, bridge.Usage{InputTokens: 9, OutputTokens: 8, CacheRead: 7, ReasoningTokens: 6}
	a.Finish()
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	want := standard(t, struct {
		ID      string     `json:"id"`
		Object  string     `json:"object"`
		Created int64      `json:"created"`
		Model   string     `json:"model"`
		Choices []int      `json:"choices"`
		Usage   *chatUsage `json:"usage"`
	}{"chatcmpl-1", "chat.completion.chunk", 17, "gpt-5", []int{}, usageOf(a.Usage)})
	if !strings.HasSuffix(w.Body.String(), "data: "+want+"\n\ndata: [DONE]\n\n") {
		t.Errorf("\n got %s\nwant %s", w.Body, want)
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
	a := streamedChat(nowhere{http.Header{}})
	ev := bridge.TextDelta{Message: "m1", Text: " a few words"}
	b.ReportAllocs()
	for b.Loop() {
		a.Add(a.Next(ev))
		if err := a.out.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}
