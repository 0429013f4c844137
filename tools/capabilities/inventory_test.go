package capabilities

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// root is the repository, from this directory.
var root = filepath.Join("..", "..")

// updating writes the generated files instead of comparing them.
var updating = flag.Bool("update", false, "write the inventory, its document and the README's table")

// The committed inventory fits the code and the pinned runtime. A call or a
// case that was added or removed shows here. The document and the README are
// compared in internal/capabilities.
func TestInventoryIsCurrent(t *testing.T) {
	dir, err := capabilities.PackageOf(runtimetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	surface, err := capabilities.ReadSurface(dir)
	if err != nil {
		t.Fatal(err)
	}
	inventory := func() (*capabilities.Inventory, []byte) {
		inv := &capabilities.Inventory{Runtime: *surface, SDK: *load(t).describe(t)}
		b, err := capabilities.Encode(inv)
		if err != nil {
			t.Fatal(err)
		}
		return inv, b
	}
	inv, now := inventory()
	if _, again := inventory(); !bytes.Equal(now, again) {
		t.Error("two runs give two inventories")
	}
	file := filepath.Join(root, "internal", "capabilities", "inventory.json.gz")
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := capabilities.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	if *updating {
		record, err := capabilities.Recorded()
		if err != nil {
			t.Fatal(err)
		}
		packed, err := capabilities.Pack(now)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(file, packed, 0o644), capabilities.Write(inv, record, root)); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(now, committed) {
		t.Error("the inventory is not current: run `make generate`")
	}
}

// The events that have a case in the translation are found, and those that
// have none are not.
func TestUsesAreFound(t *testing.T) {
	sdk := load(t).describe(t)
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
	if c := calls["session.history.truncate"]; len(c.Uses) != 1 || c.Uses[0] != "internal/agent/sdk/session.go" {
		t.Errorf("%+v", c)
	}
	if c := calls["session.model.switchTo"]; len(c.Uses) != 0 || len(c.Through) != 1 || c.Through[0] != "Session.SetModel" {
		t.Errorf("%+v", c)
	}
	if c := calls["session.fleet.start"]; len(c.Uses)+len(c.Through) != 0 {
		t.Errorf("%+v", c)
	}
}
