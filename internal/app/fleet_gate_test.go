package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// A worker's guard obeys its own policy and the coordinator's, and what either
// asks about is put to the coordinator's person: no setting and nobody of the
// worker's answers in that person's place.
func TestGateOfAWorker(t *testing.T) {
	t.Parallel()
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there, dir, root := &config.Config{Home: t.TempDir()}, t.TempDir(), t.TempDir()
	here := &config.Config{Home: t.TempDir(), AuditLogDir: filepath.Join(root, "audit")}
	here.ABP.AllowAlwaysTools = []string{"bash"}
	here.Engine.ApprovalTimeout = time.Minute
	write(there.Home, policy.UserFile, "shell: {deny: [git]}\n")
	write(here.Home, policy.UserFile, "shell: {allow: [make, ls, git]}\nwrites: {deny: [secret.txt]}\n")
	layers, digest, err := sentPolicy(there, dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := receivedPolicy(&fleet.Assignment{Policy: layers, PolicyDigest: digest})
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	ask := func(_ context.Context, q json.RawMessage, _ time.Time) (json.RawMessage, error) {
		var in sentQuestion
		if err := json.Unmarshal(q, &in); err != nil {
			t.Error(err)
		}
		asked = append(asked, in.Summary)
		return json.RawMessage(`{"consent":"deny"}`), nil
	}
	work := filepath.Join(memberDir(here, fleet.RoleWorker), "work", "trees", "a")
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	b := &Bridge{opts: Options{Config: here, UserDir: root, Logger: slog.New(slog.DiscardHandler)}}
	defer func() {
		if err := b.guard.close(); err != nil {
			t.Error(err)
		}
	}()
	gate, err := b.Gate(Guarding{Workspace: work, Door: fleetDoor, Asker: fleetAsker{ask}, Defaults: policy.DefaultsRun(), Other: other})
	if err != nil {
		t.Fatal(err)
	}
	shell := func(command string) bridge.ToolCall {
		return bridge.ToolCall{Name: "bash", Args: map[string]any{"command": command}}
	}
	file := func(path string) bridge.ToolCall {
		return bridge.ToolCall{Name: "create", Args: map[string]any{"path": path, "file_text": "x"}}
	}
	for _, tt := range []struct {
		call  bridge.ToolCall
		want  bridge.Verdict
		asked string
		why   string
	}{
		{shell("ls"), bridge.Allow, "", "both allow it"},
		{shell("make"), bridge.Deny, "run: make", "the coordinator's policy asks"},
		{shell("git push"), bridge.Deny, "", "the coordinator's policy denies"},
		{file("a.txt"), bridge.Allow, "", "both allow it"},
		{file("secret.txt"), bridge.Deny, "", "this machine's policy denies"},
		{bridge.ToolCall{Name: "view", Args: map[string]any{"path": filepath.Join(memberDir(here, fleet.RoleWorker), "user.nk")}}, bridge.Deny, "", "it is a key"},
		{bridge.ToolCall{Name: "view", Args: map[string]any{"path": filepath.Join(hubDir(here), "account.nk")}}, bridge.Deny, "", "it is a key"},
	} {
		asked = nil
		d := gate.Before(t.Context(), tt.call)
		if got := strings.Join(asked, " "); d.Verdict != tt.want || got != tt.asked {
			t.Errorf("%v, since %s: %v (%s), asked %q", tt.call.Args, tt.why, d.Verdict, d.Reason, got)
		}
	}
}
