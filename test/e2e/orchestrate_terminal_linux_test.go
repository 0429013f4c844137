package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// Parts that run at the same time ask one after the other, and say who they
// are; the board stands below.
func TestOrchestrateAtATerminal(t *testing.T) {
	dir := t.TempDir()
	plan := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(plan, []byte(`{"tasks":[{"id":"one","description":"run touch one.txt"},{"id":"two","description":"run touch two.txt"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	x := atTerminalOf(t, t.TempDir(), dir, "orchestrate", "--demo", "--plan", plan)
	for range 2 {
		x.sees("? Copilot, for ")
		x.sees("wants to run")
		x.sees("[n]o: ")
		x.types("y\n")
	}
	x.sees("✓ one")
	x.sees("done in")
	x.exits(0)
	for _, name := range []string{"one.txt", "two.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
