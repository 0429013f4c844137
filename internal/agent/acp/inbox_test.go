package acp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// An agent that says more than its reader takes is asked to end the turn, and
// what waits is bounded. The ends of tool calls are still recorded.
func TestUnreadTurn(t *testing.T) {
	out, w := io.Pipe()
	r, in := io.Pipe()
	l := &link{opts: &Options{Logger: slog.New(slog.DiscardHandler)}, words: &lastWords{}, sessions: map[string]*conversation{}}
	l.conn = acpwire.NewConn(r, w, handler{l}, jsonrpc.Options{})
	l.wg.Go(func() { _ = l.conn.Run(t.Context()) })
	s := newConversation(&Agent{}, l, "s", bridge.SessionSpec{WorkingDir: "/w"})
	l.register(s)
	turn := newTurn(&session.Turn{})
	s.turn = turn
	said := make(chan struct{})
	go func() {
		defer close(said)
		update := func(fields string) {
			if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{%s}}}`+"\n", fields); err != nil {
				t.Errorf("write: %v", err)
			}
		}
		for range mostWaiting>>20 + 1 {
			update(`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}`)
		}
		update(`"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"think","status":"completed","rawOutput":"` + strings.Repeat("y", 1<<20) + `"`)
	}()
	var cancel struct{ Method string }
	if line, err := bufio.NewReader(out).ReadBytes('\n'); err != nil || json.Unmarshal(line, &cancel) != nil || cancel.Method != acpwire.NotifyCancel {
		t.Errorf("the agent hears %s, %v", line, err)
	}
	<-said
	_ = in.Close()
	l.wg.Wait() // all was read
	items, _, err := turn.Take()
	if !errors.Is(err, errUnread) {
		t.Errorf("the turn ends with %v", err)
	}
	waiting := 0
	for _, it := range items {
		waiting += len(it.raw)
	}
	if waiting > mostWaiting || len(items) > mostWaiting>>20 {
		t.Errorf("%d bytes in %d updates wait", waiting, len(items))
	}
	if last, ok := items[len(items)-1].update.(*acpwire.ToolCall); !ok || last.Status != acpwire.StatusCompleted || last.RawOutput != nil {
		t.Errorf("the last is %+v", items[len(items)-1].update)
	}
	s.turn = nil
	s.release(t.Context())
}

// Small pieces that wait are joined, up to a size.
func TestWaitingPiecesAreJoined(t *testing.T) {
	turn := newTurn(&session.Turn{})
	for range 20_000 {
		turn.push(item{update: &acpwire.Chunk{Type: acpwire.UpdateAgentMessage, Content: acpwire.Text("0123456789")}})
	}
	items, _, _ := turn.Take()
	if len(items) > 1000 {
		t.Errorf("%d items wait", len(items))
	}
	n := 0
	for _, it := range items {
		if c, ok := it.update.(*acpwire.Chunk); ok {
			n += len(c.Content.Text)
		}
	}
	if n != 200_000 {
		t.Errorf("%d bytes are left", n)
	}
}
