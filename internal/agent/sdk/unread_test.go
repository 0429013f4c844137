//go:build unix

package sdk_test

import (
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// watched closes a channel when a text is written.
type watched struct {
	text string
	once sync.Once
	seen chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.once.Do(func() { close(w.seen) })
	}
	return io.Discard.Write(p)
}

// A turn whose events are not read is aborted while its reader is still held
// up, and the session can be used again.
func TestUnread(t *testing.T) {
	log := &watched{text: "turn.unread", seen: make(chan struct{})}
	ctx, a, m := start(t, func(o *sdk.Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	s := openSession(t, ctx, a, bridge.SessionSpec{})
	var reply demomodel.Reply
	for range 500 {
		reply = append(reply, demomodel.Chunks(strings.Repeat("0123456789", 400)))
	}
	m.Push(append(reply, demomodel.Silence()))
	size := 0
	var failure error
	for ev, err := range s.Send(ctx, bridge.Prompt{Text: "go"}) {
		failure = err
		if d, ok := ev.(bridge.TextDelta); ok {
			if size == 0 {
				select {
				case <-log.seen:
				case <-ctx.Done():
					t.Fatal("the turn goes on though nobody reads it")
				}
			}
			size += len(d.Text)
		}
	}
	if bridge.CodeOf(failure) != bridge.CodeTimeout || !strings.Contains(failure.Error(), "not read") {
		t.Errorf("failed with %v", failure)
	}
	if size < 1<<19 || size > 3<<19 {
		t.Errorf("%d bytes were kept for the reader", size)
	}
	o := agenttest.Collect(ctx, s, agenttest.Say("again"))
	if bridge.CodeOf(o.Err) == bridge.CodeCrashed {
		// On a slow machine the runtime is silent for so long after the flood
		// that it is replaced. The engine repeats such a turn.
		o = agenttest.Collect(ctx, s, agenttest.Say("again"))
	}
	if o.Err != nil || o.Text() != "again" {
		t.Errorf("%q, %v", o.Text(), o.Err)
	}
}
