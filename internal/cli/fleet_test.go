package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// member makes the home a member of a fleet, as a worker or a coordinator.
func (w *world) member(t *testing.T, role string) {
	t.Helper()
	dir := filepath.Join(w.home, ".copilot-bridge", "fleet", role)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "member.json"), []byte(`{"fleet":"f-1","id":"m-1","name":"m","role":"`+role+`","urls":["tls://127.0.0.1:1"]}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A machine that is only a worker has no runs; it hears what to do.
func TestResumeOnAWorker(t *testing.T) {
	for _, args := range [][]string{{"--resume", "last"}, {"--resume", "2026"}} {
		w := newWorld(t)
		w.member(t, "worker")
		code := w.run(append([]string{"orchestrate", "--demo"}, args...)...)
		if said := w.err.String(); code != 1 || !strings.Contains(said, "may not take one over from the fleet f-1") || !strings.Contains(said, "fleet join -") {
			t.Errorf("%q: %d %s", args, code, said)
		}
	}
	w := newWorld(t)
	if code := w.run("orchestrate", "--demo", "--resume", "last"); code != 1 || strings.Contains(w.err.String(), "fleet") {
		t.Errorf("%d %s", code, w.err)
	}
}
