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

// A mistake has one sentence, a remedy, and the exit code of its kind.
func TestFleetMistakes(t *testing.T) {
	for _, tt := range []struct {
		role  string // the machine's membership
		args  string // with spaces between
		stdin string
		code  int
		says  string
	}{
		{"", "worker", "", 1, "this machine is no worker of a fleet"},
		{"coordinator", "worker", "", 1, "gives work to the fleet f-1, and is no worker of it"},
		{"", "worker --capacity 0", "", 2, "--capacity=0: must be from 1"},
		{"", "worker --label =x", "", 2, `--label="=x": must be a name`},
		{"", "worker --name x", "", 2, "--name is given when the machine joins"},
		{"", "worker --join @nofile", "", 2, "cannot be read from nofile: no such file"},
		{"", "worker --join -", "", 2, "standard input has no line"},
		{"", "worker --join -", "cbfleet1.eyJpZCI6", 2, "no invitation to a fleet, or only a part of one"},
		{"worker", "fleet join -", "hello", 2, "no invitation to a fleet"},
		{"", "fleet join", "", 2, "accepts one line"},
		{"", "fleet status", "", 1, "this machine is in no fleet"},
		{"worker", "fleet status", "", 1, "is a worker of the fleet f-1, and may not give work"},
		{"", "fleet invite --uses 0", "", 2, "--uses=0: must be at least 1"},
		{"", "fleet invite --for 1s", "", 2, "--for=1s: must be from 1m"},
		{"", "fleet invite --coordinator --label gpu", "", 2, "--label is for workers"},
		{"", "fleet remove", "", 2, "accepts one machine"},
		{"", "fleet remove x", "", 2, "needs --yes"},
		{"", "fleet up --creds x", "", 2, "go with --nats"},
		{"", "fleet up --nats tls://127.0.0.1:1 --creds nofile --account-key nofile", "", 2, "nofile cannot be read: no such file"},
		{"", "orchestrate x --demo --fleet", "", 1, "this machine is in no fleet"},
		{"worker", "orchestrate x --demo --fleet", "", 1, "may not give work"},
		{"", "orchestrate x --demo --label gpu", "", 2, "give --fleet too"},
		{"", "orchestrate --list --fleet", "", 1, "this machine is in no fleet"},
	} {
		w := newWorld(t)
		if tt.role != "" {
			w.member(t, tt.role)
		}
		w.Stdin = strings.NewReader(tt.stdin)
		code := w.run(strings.Fields(tt.args)...)
		if said := w.err.String(); code != tt.code || !strings.Contains(said, tt.says) || strings.Count(said, "\n  → ") != 1 {
			t.Errorf("%s: %d %s", tt.args, code, said)
		}
	}
}
