package examples

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

const patience = 2 * time.Minute

// build builds a program of this repository.
func build(t *testing.T, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	if text, err := exec.Command("go", "build", "-o", out, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// command is a program in an empty directory, with a separate home.
func command(t *testing.T, program string, args ...string) (cmd *exec.Cmd, home string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	home = t.TempDir()
	cmd = exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=off"}
	return cmd, home
}

// gone waits until no process has a home directory.
func gone(t *testing.T, home string) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		left := ""
		environs, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range environs {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			env, readErr := os.ReadFile(file) // fails if it has ended
			if err == nil && readErr == nil && bytes.Contains(env, []byte("HOME="+home+"\x00")) {
				left += " " + strconv.Itoa(pid)
			}
		}
		if left == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("processes are left:%s", left)
		}
	}
}

func TestChat(t *testing.T) {
	t.Parallel()
	cmd, home := command(t, build(t, "chat"), "-demo", "rehearsal: text A lock.")
	out, err := cmd.Output()
	if err != nil || string(out) != "A lock.\n" {
		t.Errorf("%q, %v", out, err)
	}
	gone(t, home)
}

func TestAgent(t *testing.T) {
	t.Parallel()
	cmd, home := command(t, build(t, "agent"), "-demo",
		"rehearsal: tool weather {\"city\": \"Oslo\"}\nrehearsal: next\nrehearsal: tool bash {\"command\": \"touch made\", \"description\": \"x\"}\nrehearsal: next\nrehearsal: text Done.")
	cmd.Stdin = strings.NewReader("y\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"→ weather", "Copilot wants to run: touch made", "Allow it? [y/N]", "Done."} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(cmd.Dir, "made")); err != nil {
		t.Error(err)
	}
	gone(t, home)
}

// The server answers, ends cleanly on Ctrl-C, and leaves no process behind when
// it is killed.
func TestServer(t *testing.T) {
	t.Parallel()
	program := build(t, "server")
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		cmd, home := command(t, program, "-demo", "-addr", "127.0.0.1:0")
		stdout, err := cmd.StdoutPipe()
		if err := errors.Join(err, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		url, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		body := `{"model":"demo","messages":[{"role":"user","content":"rehearsal: text Hello."}]}`
		res, err := http.Post(strings.TrimSpace(url)+"/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), `"Hello."`) {
			t.Errorf("%s %s %v", res.Status, text, err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.ExitCode() == -1
		if signal == os.Interrupt && err != nil || signal == os.Kill && !killed {
			t.Errorf("%s: %v", signal, err)
		}
		gone(t, home)
	}
}

// Another module that imports the API builds and runs.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	main, err := os.ReadFile("chat/main.go")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	// It needs what we need, in the same versions.
	_, requires, _ := strings.Cut(string(ours), "\nrequire (")
	mod := "module example.com/outside\n\ngo 1.26.0\n\nrequire github.com/copilot-bridge/copilot-bridge v0.0.0\n\nreplace github.com/copilot-bridge/copilot-bridge => " + root + "\n\nrequire (" + requires
	if i := strings.Index(mod, "\ntool "); i > 0 {
		mod = mod[:i]
	}
	for name, text := range map[string][]byte{"main.go": main, "go.mod": []byte(mod), "go.sum": sums} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(t.TempDir(), "outside")
	goBuild := exec.Command("go", "build", "-mod=mod", "-o", program, ".")
	goBuild.Dir = dir
	if text, err := goBuild.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	cmd, home := command(t, program, "-demo", "rehearsal: text From outside.")
	if out, err := cmd.Output(); err != nil || string(out) != "From outside.\n" {
		t.Errorf("%q, %v", out, err)
	}
	gone(t, home)
}
