//go:build unix

package sdk_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// The stored state of a session can be erased without a runtime, but not while
// the session is in use. Nothing that a living process has open is abandoned.
func TestErase(t *testing.T) {
	opts := options(t, model(t))
	agent := sdk.New(opts)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := agent.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(ctx, s, agenttest.Say("hello")); o.Err != nil {
		t.Fatal(o.Err)
	}
	dir := filepath.Join(opts.Home, "session-state", s.ID())
	if err := sdk.Erase(opts.Home, s.ID()); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Errorf("erasing a session in use: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "events.jsonl")); err != nil {
		t.Error(err)
	}
	if left, err := sdk.Abandoned(opts.Records); err != nil || len(left) != 0 {
		t.Errorf("abandoned are %v, %v", left, err)
	}
	if err := errors.Join(s.Close(ctx), agent.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	if notes, err := os.ReadDir(filepath.Join(opts.Records, "conversations")); err != nil || len(notes) != 0 {
		t.Errorf("left are %v, %v", notes, err)
	}
	if !sdk.Claimed(opts.Home, s.ID()) {
		t.Error("the session is not one of ours")
	}
	if err := sdk.Erase(opts.Home, s.ID()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the session is still stored: %v", err)
	}
	for _, id := range []string{"", ".", "..", "a/b", "../x"} {
		if err := sdk.Erase(opts.Home, id); bridge.CodeOf(err) != bridge.CodeInvalid || sdk.Claimed(opts.Home, id) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
