package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// chatEnv is the environment of a conversation on a terminal.
func chatEnv(t *testing.T, home string, more ...string) []string {
	t.Helper()
	return append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=off"}, more...)
}

// The whole of a first conversation, begun without a command.
func TestChat(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	x := atTerminalWith(t, chatEnv(t, home), dir)
	x.waitFor("Type a prompt, or /help.")
	x.waitFor("\x1b[?2004h")
	x.typeKeys("create hello.txt saying hi\r")
	x.waitFor("✓")
	x.waitFor("I created hello.txt.")
	x.waitFor("1 file written: ")
	x.checkFile("hello.txt", true)

	// A question takes the place of what is being typed, and gives it back.
	x.typeKeys("run the command: touch made\r")
	x.waitFor("? Copilot wants to run: touch made")
	x.waitFor(menu)
	x.typeKeys("y\r")
	x.waitFor("done in")
	x.checkFile("made", true)

	// What is said meanwhile goes into the turn.
	x.typeKeys("rehearsal: tool bash {\"command\":\"until test -e go; do :; done\",\"description\":\"wait\"}\x1b\rrehearsal: next\x1b\rrehearsal: text heard\r")
	x.waitFor(menu)
	x.typeKeys("y\r")
	x.waitFor("bash until test -e go")
	x.typeKeys("rehearsal: text steered\r")
	x.waitFor("sent into the turn")
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.waitFor("done in")

	// Ctrl-C ends a turn and not the conversation.
	x.typeKeys("rehearsal: silence\r")
	x.waitFor("waiting for the model")
	x.typeKeys("/new\r")
	x.waitFor("/new has to wait: a turn is running")
	x.waitFor("→ end it with Ctrl-C, or wait for its end")
	x.typeKeys(ctrC)
	x.waitFor("interrupting… (Ctrl-C again to leave)")
	x.waitFor("interrupted after")

	for _, tt := range []struct{ typed, seen string }{
		{"/mdel", "there is no command /mdel\r\n  → did you mean /model?"},
		{"/xyzzy", "there is no command /xyzzy\r\n  → see /help; a prompt that begins with a slash needs a blank in front"},
		{"/help", "Ctrl-C ends the turn; twice, or Ctrl-D, leaves."},
		{"/usage", "requests to the model"},
		{"/model", "rehearsal-1"},
		{"/model reharsal-1", "there is no model reharsal-1\r\n  → did you mean rehearsal-1?"},
		{"/model rehearsal-1", "The model is rehearsal-1 from now on."},
		{"/policy", "No policy file is in force: the defaults decide."},
		{"/resume", "create hello.txt saying hi"},
		{"/resume last", "This is the session."},
		{"/resume 00000000", "no session"},
		{"/new", "A new session begins."},
		{"/usage", "Nothing has been said yet."},
	} {
		x.typeKeys(tt.typed + "\r")
		x.waitFor(tt.seen)
	}
	for _, prompt := range []string{"/etc/hosts is a file", "say the key ghp_0123456789abcdefghijABCDEFGHIJ012345"} {
		x.typeKeys(prompt + "\r")
		x.waitFor("You said: " + prompt[:7])
		x.waitFor("done in")
	}

	// Ctrl-C throws away what is typed; two of them leave.
	x.typeKeys("never sent")
	x.waitFor("never sent")
	x.typeKeys(ctrC + ctrC)
	x.waitFor("Ctrl-C again, or Ctrl-D, leaves.")
	x.typeKeys(ctrC)
	x.waitFor("\x1b[?2004l")
	x.waitFor("resume with: copilot-bridge chat --resume ")
	x.checkExit(0)

	kept, err := os.ReadFile(filepath.Join(home, ".copilot-bridge", "chat-history.jsonl"))
	if err != nil || strings.Contains(string(kept), "ghp_") || strings.Contains(string(kept), "never sent") {
		t.Errorf("the history: %v\n%s", err, kept)
	}

	// The next one knows what was typed, and can go on.
	x = atTerminalWith(t, chatEnv(t, home), dir, "chat", "--resume", "last")
	x.waitFor("\x1b[?2004h")
	x.typeKeys("\x1b[A\x1b[A")
	x.waitFor("/etc/hosts is a file")
	x.typeKeys("\x15/qu\t\r")
	x.checkExit(0)
}

// Markdown is rendered while it comes, at any width and after the terminal has
// changed its size.
func TestChatRendersMarkdown(t *testing.T) {
	for name, tt := range map[string]struct {
		env, want string
		columns   uint16
		colours   bool
	}{
		"80 columns":  {"", "Title\n• one bold and code in a line that is longer than sixty columns has to be\n  wrapped\n• two\nend\n", 80, true},
		"120 columns": {"", "Title\n• one bold and code in a line that is longer than sixty columns has to be wrapped\n• two\nend\n", 120, true},
		"60 columns":  {"", "Title\n• one bold and code in a line that is longer than sixty\n  columns has to be wrapped\n• two\nend\n", 60, true},
		"NO_COLOR":    {"NO_COLOR=1", "# Title\n• one bold and `code` in a line that is longer than sixty columns has to be\n  wrapped\n• two\nend\n", 80, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := atTerminalWith(t, chatEnv(t, t.TempDir(), tt.env), t.TempDir(), "chat")
			x.waitFor("\x1b[?2004h")
			x.resize(tt.columns)
			x.typeKeys("\x1b[200~rehearsal: chunks # Ti|tle\\n- one **bo|ld** and `co|de` in a line that is longer than sixty columns has to be wrapped\\n- t|wo\\nend\x1b[201~\r")
			x.waitFor("done in")
			x.typeKeys(ctrD)
			x.checkExit(0)
			seen := x.screen.String()
			if shown := shownAt(seen, int(tt.columns)); !strings.Contains(shown, "\n"+tt.want+"done in") || strings.Contains(seen, "\x1b[1m") != tt.colours {
				t.Errorf("%s\n%q", shown, seen)
			}
		})
	}
}

// shownAt is what is on a screen, and was, after a program has written to it.
func shownAt(written string, columns int) string {
	rows, x, y := [][]rune{nil}, 0, 0
	below := func() {
		if y++; y == len(rows) {
			rows = append(rows, nil)
		}
	}
	for written != "" {
		r, n := utf8.DecodeRuneInString(written)
		rest := written[n:]
		switch r {
		case '\r':
			x = 0
		case '\n':
			below()
		case 0x1b:
			end := strings.IndexFunc(rest[1:], unicode.IsLetter) + 1
			switch rest[end] {
			case 'A':
				y--
			case 'C':
				x++
			case 'J':
				rows = rows[:y+1]
				rows[y] = rows[y][:min(x, len(rows[y]))]
			}
			rest = rest[end+1:]
		default:
			if x == columns {
				x = 0
				below()
			}
			for len(rows[y]) <= x {
				rows[y] = append(rows[y], ' ')
			}
			rows[y][x] = r
			x++
		}
		written = rest
	}
	var out strings.Builder
	for _, row := range rows {
		out.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return out.String()
}

// resize changes the terminal's width, as a window manager does.
func (x *terminal) resize(columns uint16) {
	x.t.Helper()
	conn, err := x.master.SyscallConn()
	if err != nil {
		x.t.Fatal(err)
	}
	var ioErr error
	if err := conn.Control(func(fd uintptr) {
		ioErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}); err != nil || ioErr != nil {
		x.t.Fatal(err, ioErr)
	}
}

// A terminal that understands no sequences gets none.
func TestChatOnADumbTerminal(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	x := atTerminalWith(t, chatEnv(t, home, "TERM=dumb"), t.TempDir(), "chat", "rehearsal: text **as it is**")
	x.waitFor("**as it is**")
	x.waitFor("done in")
	x.waitFor("> ")
	x.typeKeys("/mdel\n")
	x.waitFor("did you mean /model?")
	x.waitFor("> ")
	x.typeKeys("run the command: touch made\n")
	x.waitFor(menu)
	x.typeKeys("y\n")
	x.waitFor("done in")
	x.waitFor("> ")
	x.typeKeys("/quit\n")
	x.checkExit(0)
	x.checkFile("made", true)
	if strings.Contains(x.screen.String(), "\x1b") {
		t.Errorf("escape sequences: %q", x.screen)
	}
}

// A signal ends the conversation, and the terminal is not left in raw mode.
func TestSignalInAChat(t *testing.T) {
	t.Parallel()
	x := atTerminalWith(t, chatEnv(t, t.TempDir()), t.TempDir(), "chat")
	x.waitFor("\x1b[?2004h")
	x.typeKeys("rehearsal: silence\r")
	x.waitFor("waiting for the model")
	if err := x.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.waitFor("\x1b[?2004l")
	x.checkExit(130)
}

// Without a terminal the whole input is one prompt; a task that is piped in
// still has a person at the terminal to ask.
func TestChatInAPipe(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary, "chat")
	cmd.Dir, cmd.Env = t.TempDir(), chatEnv(t, t.TempDir())
	cmd.Stdin = strings.NewReader("rehearsal: text one\nrehearsal: text two\n")
	if out, err := cmd.Output(); err != nil || string(out) != "onetwo\n" && string(out) != "one\ntwo\n" {
		t.Errorf("%v: %q", err, out)
	}
}

func TestPipedInputLeavesThePersonToAsk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	x := atTerminalReading(t, r, chatEnv(t, t.TempDir()), dir, "run", `rehearsal: tool bash {"command":"touch made","description":"write"}`+"\nrehearsal: next\nrehearsal: text over")
	if _, err := io.WriteString(w, "some text\n"); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	x.waitFor(menu)
	x.typeKeys("y\n")
	x.checkExit(0)
	x.checkFile("made", true)
}
