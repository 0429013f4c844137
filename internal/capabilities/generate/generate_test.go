package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
)

// What is committed is what the code and the pinned runtime give: a call or a
// case that was added or taken away shows here.
func TestInventoryIsCurrent(t *testing.T) {
	pkg, err := capabilities.PackageOf(runtimetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	now, err := inventory(t.Context(), pkg)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile(filepath.Join("..", "inventory.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(now, committed) {
		t.Error("the inventory is not current: run `make generate`")
	}
	again, err := inventory(t.Context(), pkg)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(now, again) {
		t.Error("two runs give two inventories")
	}
}

// The events that have a case in the translation are found, and those that
// have none are not.
func TestUsesAreFound(t *testing.T) {
	c, err := load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := c.describe()
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]capabilities.EventUse{}
	for _, e := range sdk.Events {
		events[e.Name] = e
	}
	for name, want := range map[string]struct{ used, dropped bool }{
		"assistant.message_delta": {true, false}, "session.idle": {true, false}, "assistant.streaming_delta": {true, true},
		"session.background_tasks_changed": {false, false},
	} {
		if e := events[name]; (len(e.Uses) > 0) != want.used || e.Dropped != want.dropped {
			t.Errorf("%s: %+v", name, e)
		}
	}
	calls := map[string]capabilities.Call{}
	for _, c := range sdk.Calls {
		calls[c.Method] = c
	}
	if c := calls["session.history.truncate"]; len(c.Uses) != 1 || c.Uses[0] != "internal/agent/sdk/reuse.go" {
		t.Errorf("%+v", c)
	}
	if c := calls["session.model.switchTo"]; len(c.Uses) != 0 || len(c.Through) != 1 || c.Through[0] != "Session.SetModel" {
		t.Errorf("%+v", c)
	}
	if c := calls["session.fleet.start"]; len(c.Uses)+len(c.Through) != 0 {
		t.Errorf("%+v", c)
	}
}
