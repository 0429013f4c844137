package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The audit folder disappears while a server runs, with or without the witness
// file. The server continues with a new log, and the log says that an earlier
// one is missing.
func TestAuditGoneUnderServe(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string][]string{"the folder": {"audit"}, "and its witness": {"audit", "audit-witness"}} {
		t.Run(name, func(t *testing.T) {
			s := serveFiles(t, map[string]string{"a.txt": "hello\n"}, nil)
			search := func() {
				t.Helper()
				if out, stderr, code := s.call(t, "mcp.search.code", `{"query":"hello"}`); code != 0 {
					t.Fatalf("%d: %s%s", code, out, stderr)
				}
			}
			verify := func() (string, int) {
				cmd := exec.Command(binary, "audit", "verify")
				cmd.Dir, cmd.Env = s.dir, s.env
				out, _ := cmd.CombinedOutput() // only the exit code matters
				return string(out), cmd.ProcessState.ExitCode()
			}
			search()
			if out, code := verify(); code != 0 {
				t.Fatal(out)
			}
			for _, dir := range gone {
				if err := os.RemoveAll(filepath.Join(s.home, ".copilot-bridge", dir)); err != nil {
					t.Fatal(err)
				}
			}
			search()
			if out, code := verify(); code != 1 || !strings.Contains(out, "records that the log had been tampered with: missing entries") {
				t.Errorf("a new log verifies without error: %d\n%s", code, out)
			}
		})
	}
}

// smallDisk returns a home on a small separate disk, and a function that fills
// the disk.
func smallDisk(t *testing.T) (home string, fill func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	home = filepath.Join(t.TempDir(), "bridge")
	if err := errors.Join(os.Mkdir(home, 0o700), syscall.Mount("tmpfs", home, "tmpfs", 0, "size=4m")); err != nil {
		t.Skipf("no small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(home, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return home, func() {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(home, "filler"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1 << 16; n > 0; n /= 2 {
			for err == nil {
				_, err = f.Write(make([]byte, n))
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			err = nil
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkDiskFullError checks that an answer reports the full disk and says what
// to do.
func checkDiskFullError(t *testing.T, answer string) {
	t.Helper()
	if !strings.Contains(answer, "no space left on device") || !strings.Contains(answer, "Free some space") || strings.Contains(answer, "Internal error") {
		t.Errorf("it does not say what to do: %s", answer)
	}
}

// If the disk with the home is full, every interface reports it.
func TestFullHome(t *testing.T) {
	t.Parallel()
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		home, fill := smallDisk(t)
		s := serveFiles(t, map[string]string{"a.txt": "hello\n"}, []string{"COPILOT_BRIDGE_HOME=" + home})
		messages := []map[string]string{{"role": "user", "content": "rehearsal: text words"}}
		for path, body := range map[string]map[string]any{
			"/v1/chat/completions": {"model": "agent/x", "messages": messages},
			"/v1/responses":        {"model": "agent/x", "input": "rehearsal: text words"},
			"/v1/messages":         {"model": "agent/x", "max_tokens": 100, "messages": messages},
		} {
			data, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			fill()
			resp, err := (&http.Client{Timeout: 2 * time.Minute}).Post(s.url+path, "application/json", bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s: %d, %v", path, resp.StatusCode, err)
			}
			checkDiskFullError(t, string(text))
		}
		fill()
		out, _, code := s.call(t, "mcp.search.code", `{"query":"hello"}`)
		if checkDiskFullError(t, out); code != 3 || !strings.Contains(out, `"code":"unavailable"`) {
			t.Errorf("rpc: %d: %s", code, out)
		}
	})
	t.Run("mcp", func(t *testing.T) {
		t.Parallel()
		home, fill := smallDisk(t)
		b := newMCPBench(t, nil)
		b.env = append(b.env, "COPILOT_BRIDGE_HOME="+home)
		c := b.connect(t, nil, "copilot")
		fill()
		r := mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": "rehearsal: text words"}, nil)
		if checkDiskFullError(t, mcpText(r)); !r.IsError || !strings.Contains(mcpText(r), "[unavailable]") {
			t.Errorf("%s", mcpText(r))
		}
	})
	t.Run("validate", func(t *testing.T) {
		t.Parallel()
		home, fill := smallDisk(t)
		fill()
		env := slices.Concat(newMCPBench(t, nil).env, []string{"COPILOT_BRIDGE_HOME=" + home})
		out := run(t, env, t.TempDir(), "validate")
		want := "✗ state      the disk of " + home + " (home) is full: no space left on device\n             → free some space on it, then try again\n"
		if !strings.Contains(out, want) {
			t.Errorf("%s", out)
		}
	})
	order := `{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"rehearsal: text words","workspace":{"root":"."}}}`
	for name, tt := range map[string]struct {
		args  []string
		input string
	}{
		"abp": {[]string{"abp"}, order + "\n"},
		"acp": {[]string{"acp"}, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"WORKSPACE","mcpServers":[]}}` + "\n"},
		"run": {[]string{"run", "--json", "rehearsal: text words"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, fill := smallDisk(t)
			b := newMCPBench(t, nil)
			cmd := exec.Command(binary, tt.args...)
			cmd.Dir, cmd.Env = b.dir, slices.Concat(b.env, []string{"COPILOT_BRIDGE_HOME=" + home})
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			fill()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
			_, _ = io.WriteString(in, strings.ReplaceAll(tt.input, "WORKSPACE", b.dir)) // checked by the answers
			var answers strings.Builder
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				answers.WriteString(lines.Text() + "\n")
				if strings.Contains(lines.Text(), `"error"`) {
					_ = in.Close() // makes long-running commands exit
				}
			}
			_ = cmd.Wait() // an error exit, or the exit of a stopped server
			checkDiskFullError(t, answers.String())
		})
	}
}
