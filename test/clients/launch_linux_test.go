package clients

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// launcher is an agentBench whose program is `copilot-bridge launch`.
func launcher(t *testing.T, env ...string) *agentBench {
	t.Helper()
	d := newAgentBench(t)
	d.path = programs(t)
	for name, program := range map[string]string{"opencode": "opencode-linux-x64-baseline/bin/opencode", "cline": "@cline/cli-linux-x64/bin/cline"} {
		if err := os.Symlink(filepath.Join(modules(t, "agents"), program), filepath.Join(d.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	qwen := "#!/bin/sh\nexec node '" + filepath.Join(modules(t, "agents"), "@qwen-code", "qwen-code", "cli.js") + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(d.path, "qwen"), []byte(qwen), 0o700); err != nil {
		t.Fatal(err)
	}
	// Nobody listens on port 1, so a serve of the tester's own is not found.
	d.env = append([]string{"COPILOT_BRIDGE_HOME=" + filepath.Join(d.home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_PORT=1"}, env...)
	return d
}

// TestLaunch starts every client with a bridge of its own. Each writes a file, and
// nothing is left behind.
func TestLaunch(t *testing.T) {
	for name, args := range map[string][]string{
		"claude":   {"-p", "create hello.txt saying hi", "--permission-mode", "acceptEdits"},
		"codex":    {"--", "exec", "--dangerously-bypass-approvals-and-sandbox", "create hello.txt saying hi"},
		"opencode": {"run", "create hello.txt saying hi"},
		"qwen":     {"--yolo", "-p", "create hello.txt saying hi"},
		"cline":    {"create hello.txt saying hi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := launcher(t)
			temp := t.TempDir()
			d.env = append(d.env, "TMPDIR="+temp)
			out := d.run(t, binary, append([]string{"launch", "--demo", name}, args...)...)
			if !strings.Contains(out, "I created hello.txt.") {
				t.Errorf("the client wrote %q", out)
			}
			d.checkFile(t, "hello.txt", "hi\n")
			left, err := filepath.Glob(filepath.Join(temp, "copilot-bridge-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

// launched is a launch that runs, and what it wrote to standard error.
func (d *agentBench) launched(t *testing.T, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"launch"}, args...)...)
	stderr := &output{}
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = d.repository, stderr, 10*time.Second
	cmd.Env = append([]string{"PATH=" + d.path + ":" + os.Getenv("PATH"), "HOME=" + d.home, "TMPDIR=" + t.TempDir()}, d.env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr
}

// waitForPrompt waits until the model is asked for this.
func waitForPrompt(t *testing.T, m *demomodel.Server, prompt string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	asked := func(r demomodel.Request) bool { return strings.Contains(r.LastUser(), prompt) }
	for deadline := time.Now().Add(time.Minute); !slices.ContainsFunc(m.Requests(), asked); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the model is not asked")
		}
	}
}

// A signal reaches the client, whose exit code becomes that of launch. When
// launch is killed, the client and the bridge end too.
func TestLaunchEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"SIGTERM": {syscall.SIGTERM, 143}, "SIGKILL": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := provider(t)
			d := launcher(t, "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+m.URL(), "COPILOT_BYOK_API_KEY="+m.Key(), "COPILOT_BYOK_MODEL="+m.Model())
			cmd, stderr := d.launched(t, "claude", "-p", "wait for me\nrehearsal: silence")
			waitForPrompt(t, m, "wait for me")
			if err := cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			var failed *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &failed) || failed.ExitCode() != tt.code {
				t.Errorf("it ended with %v; stderr:\n%s", err, stderr)
			}
			programtest.NoneLeft(t, d.home)
		})
	}
}

// A serve that runs is used, with its token; what --print shows does the same.
func TestLaunchFindsServe(t *testing.T) {
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	port := "COPILOT_BRIDGE_PORT=" + s.url[strings.LastIndexByte(s.url, ':')+1:]
	d := launcher(t, port, "COPILOT_BRIDGE_TOKEN="+token)
	d.run(t, binary, "launch", "claude", "-p", "create hello.txt saying hi", "--permission-mode", "acceptEdits")
	d.checkFile(t, "hello.txt", "hi\n")
	waitForPrompt(t, s.model, "create hello.txt")

	for name, args := range map[string]string{"codex": "exec --dangerously-bypass-approvals-and-sandbox", "cline": ""} {
		file := name + ".txt"
		lines := d.run(t, binary, append(append([]string{"launch", "--print", name}, strings.Fields(args)...), "create "+file+" saying ho")...)
		if strings.Contains(lines, token) {
			t.Errorf("the lines hold the token:\n%s", lines)
		}
		d.run(t, "sh", "-e", "-c", lines)
		d.checkFile(t, file, "ho\n")
	}

	cmd, stderr := d.launched(t, "--model", "rehearsal-2", "claude")
	const want = "copilot-bridge: there is no model \"rehearsal-2\"\n  → did you mean rehearsal-1? the models are rehearsal-1\n"
	var failed *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &failed) || failed.ExitCode() != 2 || stderr.String() != want {
		t.Errorf("an unknown model: %v, %s", err, stderr)
	}
	cmd, stderr = d.launched(t, "codex", "exec", "--nonesuch")
	if err := cmd.Wait(); !errors.As(err, &failed) || failed.ExitCode() != 2 || !strings.Contains(stderr.String(), "--nonesuch") {
		t.Errorf("a wrong argument: %v, %s", err, stderr)
	}
	// With another token it does not admit, so launch starts its own.
	other := launcher(t, port, "COPILOT_BRIDGE_TOKEN=another-token")
	before := len(s.model.Requests())
	out := other.run(t, binary, "launch", "claude", "-p", "rehearsal: text Hi.")
	if !bytes.HasPrefix([]byte(out), []byte("Hi.")) || len(s.model.Requests()) != before {
		t.Errorf("with another token: %q, %d requests", out, len(s.model.Requests())-before)
	}
}

// What register writes is enough for the client; unregister leaves nothing of it.
func TestRegister(t *testing.T) {
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	port := "COPILOT_BRIDGE_PORT=" + s.url[strings.LastIndexByte(s.url, ':')+1:]
	for name, tt := range map[string]struct{ file, run string }{
		"claude-code": {".claude/settings.json", `claude -p "create hello.txt saying hi" --permission-mode acceptEdits`},
		"codex":       {".codex/config.toml", `codex exec --dangerously-bypass-approvals-and-sandbox "create hello.txt saying hi"`},
		"opencode":    {".config/opencode/opencode.json", `opencode run "create hello.txt saying hi"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := launcher(t, port, "COPILOT_BRIDGE_TOKEN="+token)
			out := d.run(t, binary, "register", name)
			if !strings.HasSuffix(out, " has the bridge now, in ~/"+tt.file+"\n→ start `copilot-bridge serve`; it has to run while you work\n") {
				t.Errorf("register says %q", out)
			}
			text, err := os.ReadFile(filepath.Join(d.home, tt.file))
			if err != nil || strings.Contains(string(text), token) {
				t.Errorf("the settings are %q, %v", text, err)
			}
			d.run(t, "sh", "-e", "-c", tt.run)
			d.checkFile(t, "hello.txt", "hi\n")
			if out := d.run(t, binary, "unregister", name); out != "✓ the bridge was taken out of ~/"+tt.file+"\n" {
				t.Errorf("unregister says %q", out)
			}
			if text, err := os.ReadFile(filepath.Join(d.home, tt.file)); err == nil && strings.Contains(string(text), "127.0.0.1") {
				t.Errorf("the settings are %q", text)
			}
		})
	}
}
