package anthropic

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// FuzzMessages sends anything to both endpoints: whatever comes, the answer is
// one that clients can read, and nothing is asked that cannot be answered.
func FuzzMessages(f *testing.F) {
	f.Add(ask)
	f.Add(askStream)
	f.Add(`{"model":"a","max_tokens":1,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"YQ=="}}]}]}],"tools":[{"name":"a","input_schema":{}}],"tool_choice":{"type":"tool","name":"a"}}`)
	f.Add(`{"model":"a","max_tokens":1,"messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"definition":{"name":"x"}}}]},{"role":"user","content":[{"type":"document","source":{"type":"content","content":"x"}},{"type":"search_result","source":"x","content":[]}]}],"thinking":{"type":"enabled","budget_tokens":1},"stop_sequences":["x"],"thread":{"type":"create"}}`)
	f.Add(`{"model":"a","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"toolu_bridge_YQ","name":"x","input":[1]}]},{"role":"user","content":"x"}],"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		svc := plays(nil, says("Hello, x and more")...)
		svc.model = "claude-sonnet-4-5"
		d := newDoor(svc, Options{MaxBody: 1 << 16})
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			w := post(t, d, path, body)
			if w.Code != http.StatusOK && !strings.Contains(w.Body.String(), `{"type":"error","error":{"type":`) {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && !json.Valid(w.Body.Bytes()) {
				t.Fatalf("not JSON: %s", w.Body)
			}
		}
		for _, c := range svc.asked {
			if n := len(c.Messages); n == 0 || c.Messages[n-1].Role != bridge.RoleUser && c.Messages[n-1].Role != bridge.RoleTool {
				t.Fatalf("nothing to answer: %+v", c.Messages)
			}
		}
	})
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }
func (d discard) WriteHeader(int)             {}
func (d discard) Flush()                      {}

// BenchmarkPiece measures what one piece of text costs, up to the socket.
func BenchmarkPiece(b *testing.B) {
	r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
	a := newAnswer(&prompt{model: "claude-sonnet-4-5"}, "msg_1", wire.NewStream(discard{http.Header{}}, r))
	var ev bridge.Event = bridge.TextDelta{Message: "m1", Text: "four words of text "}
	b.ReportAllocs()
	for b.Loop() {
		a.Add(a.Next(ev))
		if err := a.out.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}
