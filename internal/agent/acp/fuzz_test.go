package acp

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// FuzzUpdates: whatever an agent says, and whatever it asks about it, the turn
// lives, its events can be written, and nothing is allowed by itself.
func FuzzUpdates(f *testing.F) {
	lines, err := os.ReadFile(filepath.Join("..", "..", "acpwire", "testdata", "messages.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		var rec struct {
			Msg struct {
				Params json.RawMessage `json:"params"`
			} `json:"msg"`
		}
		if json.Unmarshal(line, &rec) == nil && len(rec.Msg.Params) > 0 {
			f.Add([]byte(rec.Msg.Params))
		}
	}
	f.Add([]byte(`{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"","status":"completed","rawInput":[1],"rawOutput":{"content":{"a":1}}}}`))
	f.Add([]byte(`{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Error: 500"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n acpwire.SessionNotification
		var p acpwire.PermissionRequest
		isUpdate, isRequest := json.Unmarshal(b, &n) == nil && n.Update != nil, json.Unmarshal(b, &p) == nil
		if !isUpdate && !isRequest {
			return
		}
		l := &link{opts: &Options{Copilot: true, Logger: slog.New(slog.DiscardHandler)}, words: &lastWords{},
			conn: acpwire.NewConn(bytes.NewReader(nil), io.Discard, nil, jsonrpc.Options{})}
		s := newConversation(&Agent{}, l, "s", bridge.SessionSpec{WorkingDir: "/w"})
		turn := newTurn(&session.Turn{})
		s.turn = turn
		if isUpdate {
			s.hear(item{update: n.Update, raw: n.Raw})
			s.hear(item{update: n.Update, raw: n.Raw})
		}
		if isRequest {
			answer, err := s.permission(t.Context(), p)()
			out, ok := answer.(acpwire.PermissionResponse)
			if err != nil || !ok {
				t.Fatalf("%v, %v", answer, err)
			}
			for _, o := range p.Options {
				if out.Outcome.OptionID == o.OptionID && out.Outcome.Outcome == "selected" && o.Kind != acpwire.RejectOnce && o.Kind != acpwire.RejectAlways {
					t.Fatalf("without a gate %s was chosen", o.Kind)
				}
			}
		}
		s.wg.Wait()
		tr := newTranslator(s, func(ev bridge.Event) {
			if _, err := bridge.EncodeEvent(ev); err != nil {
				t.Fatalf("%T: %v", ev, err)
			}
		})
		items, _, _ := turn.Take()
		tr.items(items)
		tr.finishMessage(nil)
	})
}
