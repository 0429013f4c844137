package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// A task for a worker is refused before anything happens where it cannot be given
// out, or its work not be written.
func TestWorkersAreRefused(t *testing.T) {
	home := t.TempDir()
	c := &config.Config{Home: home, AuditLogDir: filepath.Join(home, "audit")}
	b := &Bridge{opts: Options{Config: c, UserDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}}
	t.Cleanup(func() {
		if err := b.guard.close(); err != nil {
			t.Error(err)
		}
	})
	g := Guarding{Workspace: t.TempDir(), Door: "test", Asker: approval.Nobody{}, Defaults: policy.DefaultsRun()}
	readOnly := g
	readOnly.Defaults = policy.DefaultsServe()
	for name, tt := range map[string]struct {
		g      Guarding
		prompt string
		code   bridge.Code
		says   string
	}{
		"read-only": {readOnly, "x", bridge.CodeDenied, "read-only"},
		"no fleet":  {g, "x", bridge.CodeNotFound, "in no fleet"},
		"too long":  {g, strings.Repeat("x", 65<<10), bridge.CodeInvalid, "longer than 64 KiB"},
	} {
		_, err := b.doOnWorker(t.Context(), single{Guarding: tt.g, prompt: tt.prompt})
		if bridge.CodeOf(err) != tt.code || !strings.Contains(bridge.AsError(err).Message, tt.says) || bridge.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := b.workers(g)
	defer func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	a := &fleetAgent{bridge: b, Guarding: g}
	for model, code := range map[string]bridge.Code{"gpt-5@gpu=yes": bridge.CodeNotFound, "gpt-5@a b": bridge.CodeInvalid} {
		if _, err := a.Open(t.Context(), bridge.SessionSpec{Model: model}); bridge.CodeOf(err) != code {
			t.Errorf("%s: %v", model, err)
		}
	}
}

// A worker that is not there is no outage of this machine's Copilot.
func TestMissingWorkerIsElsewhere(t *testing.T) {
	f, home := fleettest.Up(t), t.TempDir()
	c := &config.Config{Home: home, AuditLogDir: filepath.Join(home, "audit")}
	if err := os.CopyFS(memberDir(c, fleet.RoleCoordinator), os.DirFS(filepath.Join(f.Dir, "coordinator"))); err != nil {
		t.Fatal(err)
	}
	b := &Bridge{opts: Options{Config: c, UserDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}}
	t.Cleanup(func() {
		if err := b.guard.close(); err != nil {
			t.Error(err)
		}
	})
	a := &fleetAgent{bridge: b, Guarding: Guarding{Workspace: t.TempDir(), Door: "test", Asker: approval.Nobody{}, Defaults: policy.DefaultsRun()}}
	s, err := a.Open(t.Context(), bridge.SessionSpec{Model: "gpt-5@cuda"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Send(t.Context(), bridge.Prompt{Text: "x"}) {
		e := bridge.AsError(err)
		if e == nil || e.Code != bridge.CodeUnavailable || !e.Elsewhere || wire.Sentence(e) != "no worker with cuda is ready in the fleet now. "+e.Remedy {
			t.Errorf("%v", err)
		}
	}
}

func TestSingleLine(t *testing.T) {
	for text, want := range map[string]string{"thinking": "one: thinking", "one was lost (it was given up), waiting for another worker": "one was lost (it was given up), waiting for another worker", "": ""} {
		if got := singleLine(orchestrate.Event{Type: orchestrate.TaskProgress, Text: text}, "one"); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// What became of a task that did not succeed is its error.
func TestSingleVerdict(t *testing.T) {
	failed := orchestrate.TaskResult{Error: &bridge.Error{Code: bridge.CodeQuota, Message: "the quota is used up"}, Outcome: orchestrate.Outcome{Worker: "build2"}}
	for name, tt := range map[string]struct {
		r    orchestrate.Result
		code bridge.Code
		says string
	}{
		"failed":   {orchestrate.Result{Tasks: []orchestrate.TaskResult{failed}}, bridge.CodeQuota, "on the worker build2: the quota is used up"},
		"held":     {orchestrate.Result{Run: "r1", Conflicts: []orchestrate.Conflict{{Message: "the work is on the branch b"}}}, bridge.CodeConflict, "on the branch b"},
		"anything": {orchestrate.Result{Summary: "0 of 1 tasks done"}, bridge.CodeInternal, "0 of 1"},
	} {
		if err := singleVerdict(tt.r); bridge.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := singleVerdict(orchestrate.Result{Success: true}); err != nil {
		t.Error(err)
	}
}
