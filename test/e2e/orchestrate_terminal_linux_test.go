package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// Concurrent parts ask for permission one after the other and name themselves.
// The progress board stays below.
func TestOrchestrateAtATerminal(t *testing.T) {
	dir := t.TempDir()
	plan := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(plan, []byte(`{"tasks":[{"id":"one","description":"run touch one.txt"},{"id":"two","description":"run touch two.txt"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	x := atTerminalOf(t, t.TempDir(), dir, "orchestrate", "--demo", "--plan", plan)
	for range 2 {
		x.waitFor("? Copilot, for ")
		x.waitFor("wants to run")
		x.waitFor("[d]eny: ")
		x.typeKeys("y\n")
	}
	x.waitFor("✓ one")
	x.waitFor("done in")
	x.checkExit(0)
	for _, name := range []string{"one.txt", "two.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
