package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// terminal is a program in a new pseudo-terminal.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	screen *output
	done   chan struct{}
	dir    string // the workspace
	read   int    // how much of the screen was already matched
}

// openPTY returns both ends of a new pseudo-terminal.
func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	number := -1
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ioErr error
	err = conn.Control(func(fd uintptr) {
		if ioErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioErr != nil {
			return
		}
		if ioErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); ioErr != nil {
			return
		}
		number, ioErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	})
	if err != nil || ioErr != nil {
		t.Fatal(err, ioErr)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// atTerminal runs the program in a new home and workspace.
func atTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	home := t.TempDir()
	return atTerminalOf(t, home, t.TempDir(), args...)
}

// atTerminalOf runs the program without a sandbox, because sandboxed commands
// need few permissions.
func atTerminalOf(t *testing.T, home, dir string, args ...string) *terminal {
	t.Helper()
	return atTerminalWith(t, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=off"}, dir, args...)
}

func atTerminalWith(t *testing.T, env []string, dir string, args ...string) *terminal {
	t.Helper()
	return atTerminalReading(t, nil, env, dir, args...)
}

// atTerminalReading gives the program another standard input than the
// terminal, unless it is nil.
func atTerminalReading(t *testing.T, stdin *os.File, env []string, dir string, args ...string) *terminal {
	t.Helper()
	master, slave := openPTY(t)
	x := &terminal{t: t, master: master, screen: &output{}, done: make(chan struct{}), dir: dir}
	x.cmd = exec.Command(binary, args...)
	x.cmd.Dir, x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = dir, slave, slave, slave
	x.cmd.Env = env
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if stdin != nil {
		x.cmd.Stdin, x.cmd.SysProcAttr.Ctty = stdin, 1
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if stdin != nil && stdin.Close() != nil {
		t.Error("the pipe cannot be closed")
	}
	if err := slave.Close(); err != nil {
		t.Error(err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(x.screen, master) // ends with an error when the program exits
	}()
	go func() {
		defer close(x.done)
		_ = x.cmd.Wait() // checked by the exit code
		<-copied
	}()
	t.Cleanup(func() {
		select {
		case <-x.done:
		default:
			_ = x.cmd.Process.Kill()
			<-x.done
		}
		if err := master.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// waitFor waits until the text appears after the previously matched text. The
// terminal's width may have broken it between words.
func (x *terminal) waitFor(text string) {
	x.t.Helper()
	wanted := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(text), " ", `(?: |\r\n *)`))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		if at := wanted.FindStringIndex(x.screen.String()[x.read:]); at != nil {
			x.read += at[1]
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			x.t.Fatalf("%q did not appear:\n%q", text, x.screen.String()[x.read:])
		}
	}
}

func (x *terminal) typeKeys(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) checkExit(code int) {
	x.t.Helper()
	select {
	case <-x.done:
	case <-time.After(patience):
		x.t.Fatalf("the program did not exit:\n%q", x.screen)
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d:\n%s", got, code, x.screen)
	}
}

func (x *terminal) checkFile(name string, want bool) {
	x.t.Helper()
	if _, err := os.Stat(filepath.Join(x.dir, name)); (err == nil) != want {
		x.t.Errorf("%s exists: %v, want %v", name, err == nil, want)
	}
}

const (
	menu = "[o]nce / [s]ession / [a]lways / [d]eny: "
	ctrC = "\x03"
	ctrD = "\x04"
)

func TestConsentAtTheTerminal(t *testing.T) {
	for _, tt := range []struct {
		keys string
		code int
		made bool
	}{{"y\n", 0, true}, {"n\n", 4, false}, {"\n", 4, false}, {"what\ny\n", 0, true}} {
		t.Run(fmt.Sprintf("%q", tt.keys), func(t *testing.T) {
			t.Parallel()
			x := atTerminal(t, "run", "run the command: touch made")
			x.waitFor("? Copilot wants to run: touch made")
			x.waitFor(menu)
			x.typeKeys(tt.keys)
			x.checkExit(tt.code)
			x.checkFile("made", tt.made)
		})
	}
}

func TestConsentForTheSession(t *testing.T) {
	t.Parallel()
	call := `rehearsal: tool bash {"command":"sh -c 'echo x >> made'","description":"write"}` + "\n"
	x := atTerminal(t, "run", call+"rehearsal: next\n"+call+"rehearsal: next\n"+"rehearsal: text over")
	x.waitFor(menu)
	x.typeKeys("s\n")
	x.checkExit(0)
	if n := strings.Count(x.screen.String(), menu); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if data, err := os.ReadFile(filepath.Join(x.dir, "made")); err != nil || string(data) != "x\nx\n" {
		t.Errorf("got %q, %v", data, err)
	}
}

// What is allowed always is written as the rule that was shown, and the same
// command is not asked about again; another one is.
func TestConsentForGood(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(home, ".copilot-bridge", "policy.yaml")
	rule := "always.shell: \"" + dir + ": touch made\""
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("# mine\nshell:\n  deny: [git push] # never\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	call := `rehearsal: tool bash {"command":"touch made","description":"write"}` + "\nrehearsal: next\n"
	x := atTerminalOf(t, home, dir, "run", call+call+"rehearsal: text over")
	x.waitFor("always: writes into your policy file " + rule)
	x.waitFor(menu)
	x.typeKeys("a\n")
	x.waitFor("over")
	x.checkExit(0)
	if n := strings.Count(x.screen.String(), menu); n != 1 {
		t.Errorf("asked %d times", n)
	}
	want := "# mine\nshell:\n  deny: [git push] # never\nalways:\n  shell:\n    - \"" + dir + ": touch made\"\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	x = atTerminalOf(t, home, dir, "run", call+`rehearsal: tool bash {"command":"touch other","description":"write"}`)
	x.waitFor("? Copilot wants to run: touch other")
	x.waitFor(menu)
	x.typeKeys("d\n")
	x.checkExit(5)
	x.checkFile("other", false)
}

// Input that was typed before the question does not answer it.
func TestTypingAheadIsNoConsent(t *testing.T) {
	t.Parallel()
	x := atTerminal(t, "run", "rehearsal: text wait for it, please\nrehearsal: delay 300ms\n"+
		`rehearsal: tool bash {"command":"touch made","description":"write"}`+"\nrehearsal: next\nrehearsal: text over")
	x.waitFor("wait for it")
	x.typeKeys("y\n")
	x.waitFor(menu)
	x.typeKeys("\n")
	x.checkExit(4)
	x.checkFile("made", false)
}

func TestCtrlCAtTheQuestion(t *testing.T) {
	t.Parallel()
	x := atTerminal(t, "run", "run the command: touch made")
	x.waitFor(menu)
	x.typeKeys(ctrC)
	x.waitFor("interrupting…")
	x.checkExit(130)
	x.checkFile("made", false)
}

func TestQuestionsToThePerson(t *testing.T) {
	t.Parallel()
	x := atTerminal(t, "run", `rehearsal: tool ask_user {"question":"Which colour?","choices":["red","green"]}`)
	x.waitFor("? Which colour?")
	x.waitFor("2) green")
	x.waitFor("> ")
	x.typeKeys("2\n")
	x.waitFor("green") // on the screen as typed input or in the tool's answer
	x.checkExit(0)
	if !strings.Contains(x.screen.String(), "ask_user answered: ") {
		t.Errorf("the answer did not reach the model:\n%s", x.screen)
	}
}

func TestPromptsInALoop(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	x := atTerminalOf(t, home, dir, "run", "create hello.txt saying hi")
	x.waitFor("--resume ")
	x.checkExit(0)
	id, _, _ := strings.Cut(x.screen.String()[x.read:], " ")
	x = atTerminalOf(t, home, dir, "sessions", "resume", id)
	x.waitFor("> ")
	x.typeKeys("read hello.txt\n")
	x.waitFor("done in")
	x.waitFor("> ")
	x.typeKeys("rehearsal: silence\n")
	x.waitFor("waiting for the model")
	x.typeKeys(ctrC) // cancels the turn, not the loop
	x.waitFor("interrupted after")
	x.waitFor("> ")
	x.typeKeys("run the command: touch made\n")
	x.waitFor(menu)
	x.typeKeys("y\n")
	x.waitFor("done in")
	x.waitFor("> ")
	x.typeKeys(ctrD)
	x.checkExit(0)
	x.checkFile("made", true)
}

func TestDeleteAsks(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	atTerminalOf(t, home, dir, "run", "list the files").checkExit(0)
	x := atTerminalOf(t, home, dir, "sessions", "delete", "--all")
	x.waitFor("Delete 1 session and all that was said in them? [y/N] ")
	x.typeKeys("\n")
	x.checkExit(4)
	x = atTerminalOf(t, home, dir, "sessions", "delete", "--all")
	x.waitFor("[y/N] ")
	x.typeKeys("y\n")
	x.waitFor("1 session deleted")
	x.checkExit(0)
}
