package hub

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// A server that can no longer store anything is no hub.
func TestStoreFails(t *testing.T) {
	t.Parallel() // it waits for the next look
	h, err := Up(t.Context(), Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if h.Err() != nil {
		t.Error(h.Err())
	}
	if err := h.server.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("nobody noticed")
	}
	if bridge.CodeOf(h.Err()) != bridge.CodeUnavailable || !strings.Contains(h.Err().Error(), h.options.Dir) {
		t.Error(h.Err())
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Who is refused again and again does not fill the record, and hides nobody else.
func TestRecordIsBounded(t *testing.T) {
	var written []string
	h := &Hub{log: slog.New(slog.DiscardHandler), record: make(chan refusal, 256),
		options: Options{Record: func(kind, member, text string) { written = append(written, kind+" "+member+" "+text) }}}
	for i := range 100 {
		h.refuse(refusal{kind: RefusedMessage, member: "loud", text: fmt.Sprint(i)})
	}
	h.refuse(refusal{kind: RefusedMessage, member: "quiet", text: "once"})
	for range 1000 { // more than there is room for: it must not block
		h.refuse(refusal{kind: RefusedJoin, member: "loud", text: "join"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.recordRefusals(ctx)
	const most = 20 // of one member and kind
	if len(written) != 2*most+1 || !strings.Contains(written[most-1], "more of these") || written[most] != RefusedMessage+" quiet once" {
		t.Errorf("%d lines: %q", len(written), written)
	}
}

// What the server says of each stream after it was killed is no warning.
func TestRecoveryIsNoWarning(t *testing.T) {
	var said strings.Builder
	l := &serverLog{hub: &Hub{log: slog.New(slog.NewTextHandler(&said, nil))}}
	l.Warnf("Filestore [%s] Stream state outdated, last block has additional entries, will rebuild", "JOURNAL")
	l.Warnf("Filestore [%s] Recovering stream state from index errored: %v", "JOURNAL", "prior state file")
	if said.Len() > 0 {
		t.Error(said.String())
	}
	l.Warnf("Filestore [%s] Recovering stream state from index errored: %v", "JOURNAL", "corrupt state file")
	if !strings.Contains(said.String(), "level=WARN") {
		t.Error(said.String())
	}
}
