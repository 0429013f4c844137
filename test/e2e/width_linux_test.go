package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// shownCommands are run one after another in one home: the first make what the
// others show.
var shownCommands = [][]string{
	{"run", "rehearsal: text ok"}, {"run", "run curl http://example.com", "--json"}, {"validate"}, {"audit", "tail"}, {"audit", "verify"},
	{"sessions", "list"}, {"sessions", "show", "last"}, {"sessions", "prune", "--older-than", "1d"}, {"models"}, {"config", "show"}, {"clean", "--dry-run"},
	{"orchestrate", "--list"}, {"version"}, {"trust"}, {"capabilities"}, {"serve", "--workspace", "/nosuch"}, {"register", "openclaw"}, {"rpc", "nosuch", "--url", "http://127.0.0.1:1"},
	{"help"}, {"help", "orchestrate"}, {"help", "serve"}, {"help", "audit", "verify"}, {"help", "register", "openclaw"},
}

// signsOfLife are shown while a command does what may take long.
var signsOfLife = map[string]string{
	"run rehearsal: text ok": "… starting", "validate": "… checking", "audit verify": "… reading the audit log", "sessions show last": "… reading the conversation",
	"models": "… asking for the models", "clean --dry-run": "… looking for what nobody needs", "rpc nosuch --url http://127.0.0.1:1": "… looking for the bridge",
}

// On a terminal of any width no word is cut: a line is as long as the terminal
// or, if it is one word, longer.
func TestWidths(t *testing.T) {
	t.Parallel()
	runtime := runtimetest.Path(t)
	for _, width := range []int{60, 80, 120} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			env := []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TERM=xterm", "NO_COLOR=1", "COPILOT_CLI_PATH=" + runtime}
			dir := t.TempDir()
			for _, args := range shownCommands {
				if strings.Contains(strings.Join(args, " "), "--json") {
					run(t, env, dir, args...)
					continue
				}
				shown := atWidth(t, width, env, dir, args...)
				if sign := signsOfLife[strings.Join(args, " ")]; !strings.Contains(shown, sign) {
					t.Errorf("%q does not show %q: %q", args, sign, shown)
				}
				if strings.Contains(shown, "m") && colour.MatchString(shown) {
					t.Errorf("%q has colours despite NO_COLOR: %q", args, shown)
				}
				for line := range strings.Lines(redrawn.ReplaceAllString(shown, "")) {
					if line = strings.TrimRight(line, "\r\n"); utf8.RuneCountInString(line) > width && strings.Contains(strings.TrimSpace(line), " ") && !marked.MatchString(line) {
						t.Errorf("%q: a line of %d columns: %s", args, utf8.RuneCountInString(line), line)
					}
				}
			}
		})
	}
}

// A terminal that knows no escape sequences, and a pipe, get none.
func TestNoEscapes(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TERM=dumb", "COPILOT_CLI_PATH=" + runtimetest.Path(t)}
	dir := t.TempDir()
	for _, args := range shownCommands {
		for how, shown := range map[string]string{"TERM=dumb": atWidth(t, 80, env, dir, args...), "pipe": run(t, append(env, "TERM=xterm"), dir, args...)} {
			if shown == "" || strings.Contains(shown, "\x1b") {
				t.Errorf("%s: %q: %q", how, args, shown)
			}
		}
	}
}

var (
	colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	// redrawn is a line that was taken off the screen again.
	redrawn = regexp.MustCompile(`[^\n]*\r(?:\x1b\[A)*\x1b\[J`)
	// marked is one long word behind the mark or the name of a line.
	marked = regexp.MustCompile(`^\s*(?:[✓✗!→·●] )?(?:\w+ +)?\S+$`)
)

// atWidth runs the program in a terminal and returns what it has written.
func atWidth(t *testing.T, width int, env []string, dir string, args ...string) string {
	t.Helper()
	master, slave := openPTY(t)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: uint16(width)}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, env, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, master) // ends with an error when the program exits
	_ = cmd.Wait()                 // many of the commands fail
	_ = master.Close()
	return shown.String()
}

// run runs the program in pipes and returns all that it has written.
func run(t *testing.T, env []string, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Env = dir, env
	out, _ := cmd.CombinedOutput() // many of the commands fail
	return string(out)
}
