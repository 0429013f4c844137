package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

const (
	screenOn  = "\x1b[?1049h"
	screenOff = "\x1b[?1049l"
)

// topIn runs top in a home, with no sandbox and no model.
func topIn(t *testing.T, home string, env ...string) *terminal {
	t.Helper()
	return atTerminalWith(t, append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm"}, env...), t.TempDir(), "top")
}

// checkLeft checks that the terminal is as it was: the screen, the cursor, and
// what it does with keys.
func (x *terminal) checkLeft() {
	x.t.Helper()
	all := x.screen.String()
	after := all[strings.LastIndex(all, screenOff)+1:]
	if strings.Count(all, screenOn) != 1 || strings.Count(all, screenOff) != 1 || strings.LastIndex(all, "\x1b[?25h") < strings.LastIndex(all, "\x1b[?25l") ||
		strings.Contains(after, "\x1b[2J") {
		x.t.Errorf("the screen is not given back:\n%q", all)
	}
	conn, err := x.master.SyscallConn()
	if err != nil {
		x.t.Fatal(err)
	}
	_ = conn.Control(func(fd uintptr) {
		state, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		if err != nil || state.Lflag&unix.ECHO == 0 || state.Lflag&unix.ICANON == 0 {
			x.t.Errorf("the terminal stays raw: %+v, %v", state, err)
		}
	})
}

func TestTopGivesTheTerminalBack(t *testing.T) {
	for name, leave := range map[string]func(*terminal) int{
		"q":      func(x *terminal) int { x.typeKeys("q"); return 0 },
		"Ctrl-C": func(x *terminal) int { x.typeKeys(ctrC); return 0 },
		"Ctrl-D": func(x *terminal) int { x.typeKeys(ctrD); return 0 },
		"TERM": func(x *terminal) int {
			if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			return 130
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			x := topIn(t, home)
			x.waitFor("no session yet")
			x.resize(60)
			x.waitFor("q leave")
			x.resize(120)
			x.waitFor("q leave")
			x.checkExit(leave(x))
			x.checkLeft()
			if left, err := live.Processes(filepath.Join(home, ".copilot-bridge")); err != nil || len(left) > 0 {
				t.Errorf("%v %v", left, err)
			}
		})
	}
}

func TestTopWithoutColours(t *testing.T) {
	t.Parallel()
	x := topIn(t, t.TempDir(), "NO_COLOR=1")
	x.waitFor("no session yet")
	x.typeKeys("q")
	x.checkExit(0)
	if strings.Contains(x.screen.String(), "\x1b[2m") {
		t.Errorf("%q", x.screen)
	}
}

// A terminal that understands no sequences gets what goes on once, as a pipe does.
func TestTopOnADumbTerminal(t *testing.T) {
	t.Parallel()
	x := topIn(t, t.TempDir(), "TERM=dumb")
	x.waitFor("no session yet")
	x.checkExit(0)
	if strings.Contains(x.screen.String(), "\x1b") {
		t.Errorf("%q", x.screen)
	}
}

// run asks in one terminal, and top answers in another; a message and a stop
// reach the turn too.
func TestTopSteers(t *testing.T) {
	t.Parallel()
	home, dir := homeDir(t), t.TempDir()
	run := atTerminalOf(t, home, dir, "run", `rehearsal: tool bash {"command":"touch made","description":"write"}`+"\nrehearsal: next\nrehearsal: text all of this is done\nrehearsal: silence")
	run.waitFor(menu)
	top := topIn(t, home)
	top.waitFor("Copilot wants to run: touch made")
	top.typeKeys("\r")
	top.waitFor("o once")
	top.typeKeys("o")
	top.waitFor("allowed once")
	run.waitFor("all of")
	run.checkFile("made", true)
	top.typeKeys("\r") // the session is the first of the list now
	top.waitFor("all of")
	top.waitFor("x stop")
	top.typeKeys("mand the docs\r")
	top.waitFor("sent")
	top.waitFor("and the docs")
	top.typeKeys("x")
	top.waitFor("x again")
	top.typeKeys("x")
	top.waitFor("stopped")
	<-run.done
	top.waitFor("r resume")
	top.typeKeys("qq")
	top.checkExit(0)
	top.checkLeft()
	// Without a terminal the same is printed once.
	cmd := exec.Command(binary, "top", "--json")
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	var board struct {
		Approvals []any
		Sessions  []struct{ State, Dir string }
	}
	if err != nil || json.Unmarshal(out, &board) != nil || len(board.Approvals) != 0 || len(board.Sessions) != 1 || board.Sessions[0].State != "ended" || board.Sessions[0].Dir != dir {
		t.Errorf("%s %v", out, err)
	}
}

// An agent's command that makes itself a terminal may look, but not answer: not
// its own question either.
func TestTopIsNoWayAroundConsent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("script(1), which makes a terminal, is not there")
	}
	home, dir := t.TempDir(), t.TempDir()
	l, err := live.Start(filepath.Join(home, ".copilot-bridge"), live.Process{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	q, err := l.Open(live.Question{Lead: "Copilot wants to run: touch made", Answers: []string{live.Once, live.Deny}})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	attempt := "#!/bin/sh\n(sleep 2; printf '\\r'; sleep 1; printf o; sleep 1; printf q; sleep 1; printf q) |\n" +
		"env -u COPILOT_BRIDGE_TREE TERM=xterm setsid script -qec '" + binary + " top' log\n"
	if err := os.WriteFile(filepath.Join(dir, "attempt"), []byte(attempt), 0o755); err != nil {
		t.Fatal(err)
	}
	x := atTerminalWith(t, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=off"}, dir,
		"run", "--yes", `rehearsal: tool bash {"command":"./attempt","description":"answer"}`+"\nrehearsal: next\nrehearsal: text over")
	x.waitFor("over")
	x.checkExit(0)
	select {
	case r := <-q.Replied():
		t.Errorf("a command of the agent answered: %+v", r)
	case <-time.After(time.Second):
	}
	if log, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || !strings.Contains(string(log), "only looking") {
		t.Errorf("it was not tried: %q %v", log, err)
	}
}
