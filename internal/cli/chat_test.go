package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

func TestChatNeedsATerminalOfItsOwn(t *testing.T) {
	w := newWorld(t)
	w.terminals(w.Stdin)
	const want = "copilot-bridge: a conversation needs the terminal for standard error too\n  → see `copilot-bridge chat --help`\n"
	if code := w.run("chat"); code != 2 || w.err.String() != want {
		t.Errorf("exit %d, %q", code, w.err)
	}
}

// On a terminal the program alone talks, elsewhere it prints its help.
func TestBareProgram(t *testing.T) {
	w := newWorld(t)
	if code := w.run(); code != 0 || !strings.Contains(w.out.String(), "Usage:") {
		t.Errorf("exit %d: %s", code, w.out)
	}
	w = newWorld(t)
	w.terminals(w.Stdin, w.Stdout, w.Stderr)
	w.Dir = filepath.Join(w.Dir, "gone")
	if code := w.run(); code != 2 || !strings.Contains(w.err.String(), "gone does not exist") || w.out.String() != "" {
		t.Errorf("exit %d: %s%s", code, w.out, w.err)
	}
}

func TestCompletionInAChat(t *testing.T) {
	cfg := &config.Config{Home: t.TempDir()}
	now := time.Now()
	for id, dir := range map[string]string{"abcd0001": "/w", "abcd0002": "/elsewhere"} {
		if err := app.Store(cfg).Put(t.Context(), sessionstore.Entry{ID: id, Agent: "sdk", Profile: "agent", State: sessionstore.StateIdle, WorkingDirectory: dir, Created: now, Updated: now}); err != nil {
			t.Fatal(err)
		}
	}
	c := &conversation{talk: &talk{dir: "/w"}, cfg: cfg}
	for line, want := range map[string]string{
		"/": "[/model /new /resume /usage /policy /help /quit]", "/re": "[/resume]", "/x": "[]", "re": "[]", "/resume ": "[/resume abcd0001]", "/model x": "[]",
	} {
		if got := fmt.Sprint(c.complete(line)); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
	p, stop := newProgram(newWorld(t).Env, func(error) {})
	defer stop()
	c.p = p
	if err := c.change(t.Context(), "abcd0002"); err == nil || err.Error() != "session abcd0002 works in /elsewhere" {
		t.Error(err)
	}
}
