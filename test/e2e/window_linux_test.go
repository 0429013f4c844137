//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/editortest"
)

const windowToken = "0123456789-e2e"

// windowProgram is the program as the VS Code extension starts it.
type windowProgram struct {
	*editortest.Extension
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ready editor.Ready
	home  string
	err   *output
	done  chan struct{} // closed when the process has ended
}

func host(t *testing.T, home string) *windowProgram {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("wait:\n\t@sleep 1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &windowProgram{Extension: &editortest.Extension{Models: []editor.Model{{ID: "m", MaxInputTokens: 100}}, Folders: []editor.Folder{{Name: "w", Path: dir}},
		Confirm: func(context.Context, editor.Question) string { return "once" }}, home: home, err: &output{}, done: make(chan struct{})}
	h.cmd = exec.Command(binary, "serve", "--host", "vscode", "--read-write", "--workspace", dir)
	h.cmd.Env = []string{"HOME=" + home, "COPILOT_BRIDGE_HOME=" + filepath.Join(home, "bridge"), "COPILOT_BRIDGE_TOKEN=" + windowToken, "PATH=" + os.Getenv("PATH")}
	h.cmd.Stderr = h.err
	var err error
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, ours := io.Pipe()
	h.cmd.Stdout = ours
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); h.Serve(context.Background(), out, h.stdin) }()
	go func() { _ = h.cmd.Wait(); _ = ours.Close(); <-served; close(h.done) }()
	t.Cleanup(func() { _ = h.cmd.Process.Kill(); <-h.done })
	if err := json.Unmarshal(h.Await(t, "bridge.ready", nil), &h.ready); err != nil {
		t.Fatal(err)
	}
	return h
}

// waitExit waits until the program has exited by itself and its port is closed.
func (h *windowProgram) waitExit(t *testing.T) {
	t.Helper()
	select {
	case <-h.done:
	case <-time.After(20 * time.Second):
		t.Fatalf("the program does not exit: %s", h.err)
	}
	if c, err := net.DialTimeout("tcp", strings.TrimPrefix(h.ready.URL, "http://"), time.Second); err == nil {
		_ = c.Close()
		t.Error("its port is still open")
	}
}

func (h *windowProgram) entries(t *testing.T) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(h.home, "bridge", "windows"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// stream requests an answer that never ends.
func (h *windowProgram) stream(t *testing.T) io.ReadCloser {
	t.Helper()
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"rehearsal: text begin\nrehearsal: silence"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.ready.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+windowToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	return resp.Body
}

// When the window closes, the program exits with code 0: streams end, and no
// processes or files remain.
func TestWindowEnds(t *testing.T) {
	for name, end := range map[string]func(*windowProgram) error{
		"with its standard input": func(h *windowProgram) error { return h.stdin.Close() },
		"by a signal":             func(h *windowProgram) error { return h.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			h := host(t, t.TempDir())
			body := h.stream(t)
			task, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.ready.URL+"/rpc",
				strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"mcp.task.run","params":{"name":"make:wait"}}`))
			if err != nil {
				t.Fatal(err)
			}
			task.Header.Set("Authorization", "Bearer "+windowToken)
			task.Header.Set("Content-Type", "application/json")
			ran := make(chan struct{})
			go func() {
				defer close(ran)
				if resp, err := http.DefaultClient.Do(task); err == nil {
					_ = resp.Body.Close()
				}
			}()
			tree := waitForTree(t, h.cmd.Process.Pid)
			if err := end(h); err != nil {
				t.Fatal(err)
			}
			h.waitExit(t)
			<-ran
			for _, pid := range tree {
				if _, err := os.Stat(fmt.Sprint("/proc/", pid, "/exe")); err == nil {
					t.Errorf("process %d is still there", pid)
				}
			}
			if received, err := io.ReadAll(body); err == nil && !strings.Contains(string(received), "[DONE]") {
				t.Errorf("the stream ended with %q", received)
			}
			if code := h.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d: %s", code, h.err)
			}
			if left := h.entries(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A killed program leaves an entry that the next one removes.
func TestWindowKilled(t *testing.T) {
	home := t.TempDir()
	h := host(t, home)
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.waitExit(t)
	if len(h.entries(t)) == 0 {
		t.Fatal("there is no entry to remove: the test checks nothing")
	}
	next := host(t, home)
	for _, e := range next.entries(t) {
		if strings.HasPrefix(e.Name(), fmt.Sprint(h.cmd.Process.Pid, ".")) {
			t.Errorf("%s is still there", e.Name())
		}
	}
}

// Invalid input does not make the program exit.
func TestWindowGarbage(t *testing.T) {
	h := host(t, t.TempDir())
	if _, err := io.WriteString(h.stdin, "this is no message\n"); err != nil {
		t.Fatal(err)
	}
	h.waitExit(t)
	if code := h.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(h.err.String(), "what is not a message: not JSON") {
		t.Errorf("exit code %d: %s", code, h.err)
	}
}

// waitForTree waits until a process has a child process "sleep" and returns all
// processes below it.
func waitForTree(t *testing.T, pid int) []int {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		all, sleeps := below(pid), false
		for _, p := range all {
			line, err := os.ReadFile(fmt.Sprint("/proc/", p, "/cmdline"))
			sleeps = sleeps || err == nil && strings.HasPrefix(string(line), "sleep\x00")
		}
		if sleeps {
			return all
		}
	}
	t.Fatal("the task does not run")
	return nil
}

// below returns all descendants of a process.
func below(pid int) []int {
	var out []int
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		var state string
		var own, parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent != pid {
			continue
		}
		if _, err := fmt.Sscan(string(b), &own); err == nil {
			out = append(append(out, own), below(own)...)
		}
	}
	return out
}
