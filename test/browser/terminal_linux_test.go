package browser

import (
	"io"
	"os/exec"
	"strings"
	"sync"
)

// menu is what a terminal asks for.
const menu = "[o]nce / [s]ession / [a]lways / [d]eny: "

// terminal is `run` in a terminal, in the workspace of a bed.
type terminal struct {
	bed  *bed
	keys io.Writer
	done chan struct{}

	mu   sync.Mutex
	said strings.Builder
	read int // how much of it was matched
}

// terminal runs a prompt. Debian's own program script gives it a terminal.
func (b *bed) terminal(prompt string) *terminal {
	b.Helper()
	cmd := exec.Command("script", "--quiet", "--return", "--command", `stty rows 40 cols 200; exec "$BRIDGE" run --demo "$PROMPT"`, "/dev/null")
	cmd.Dir, cmd.WaitDelay = b.workspace, patience
	cmd.Env = append([]string{"BRIDGE=" + b.binary, "PROMPT=" + prompt, "TERM=xterm", "SHELL=/bin/sh"}, b.env...)
	x := &terminal{bed: b, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = x, x
	keys, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	x.keys = keys
	go func() {
		defer close(x.done)
		_ = cmd.Wait() // a turn that was stopped is a failure
	}()
	b.Cleanup(func() {
		select {
		case <-x.done:
		default:
			_ = cmd.Process.Kill() // its terminal goes with it, which ends the program
			<-x.done
		}
	})
	return x
}

// Write is for the program.
func (x *terminal) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.said.Write(p)
}

// waitFor waits until the terminal says something after what was waited for before.
func (x *terminal) waitFor(part string) {
	x.bed.Helper()
	x.bed.until(part+"\nin the terminal", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		i := strings.Index(x.said.String()[x.read:], part)
		if i >= 0 {
			x.read += i + len(part)
		}
		return i >= 0
	})
}

func (x *terminal) press(keys string) {
	x.bed.Helper()
	if _, err := io.WriteString(x.keys, keys); err != nil {
		x.bed.Fatal(err)
	}
}

// end waits for the end of the program, and returns what it has said.
func (x *terminal) end() string {
	x.bed.Helper()
	x.bed.until("the end of run", func() bool {
		select {
		case <-x.done:
			return true
		default:
			return false
		}
	})
	return x.said.String()
}
