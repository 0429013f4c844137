package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/acpschema"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// editor is the environment of an ACP client: a workspace, a home, and the
// settings that the agent inherits.
type editor struct {
	workspace, home, node, modules string
	model                          *demomodel.Server
	env                            []string
}

func newEditor(t *testing.T) *editor {
	t.Helper()
	e := &editor{workspace: t.TempDir(), home: t.TempDir(), modules: modules(t, "acp"), node: "node"}
	// acpx needs a newer Node than many machines have, so npm installs one.
	system, arch := runtime.GOOS, runtime.GOARCH
	if system == "windows" {
		system = "win"
	}
	if arch == "amd64" {
		arch = "x64"
	}
	if found, err := filepath.Glob(filepath.Join(e.modules, "node-"+system+"-"+arch, "bin", "node*")); err == nil && len(found) > 0 {
		e.node = found[0]
	}
	// Paths are compared as strings, so links are resolved here.
	if resolved, err := filepath.EvalSymlinks(e.workspace); err == nil {
		e.workspace = resolved
	}
	m := provider(t)
	e.model = m
	e.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + e.home, "USERPROFILE=" + e.home, "TMPDIR=" + t.TempDir(), "AGENT=" + binary, "WORKSPACE=" + e.workspace,
		"COPILOT_BRIDGE_HOME=" + filepath.Join(e.home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(t),
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + m.URL(), "COPILOT_BYOK_API_KEY=" + m.Key(), "COPILOT_BYOK_MODEL=" + m.Model(),
		"COPILOT_BRIDGE_SANDBOX=off", // a sandboxed command needs fewer permissions
	}
	t.Cleanup(func() { programtest.NoneLeft(t, e.home) })
	return e
}

// run runs a Node program and returns its standard output.
func (e *editor) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.node, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = e.workspace, e.env, &stdout, &stderr, 10*time.Second
	err := cmd.Run()
	if err != nil {
		t.Logf("%v:\n%s", args[0], &stderr)
	}
	return stdout.String(), err
}

func loadSchema(t *testing.T) *acpschema.Schema {
	t.Helper()
	s, err := acpschema.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// waitForFile waits until a file exists in the workspace.
func (e *editor) waitForFile(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		if _, err := os.Stat(filepath.Join(e.workspace, name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no %s", name)
		}
	}
}

// TestACPSDK runs acp/sdk.test.mjs, which drives the agent with the official
// client library. All messages of the agent must match the schema.
func TestACPSDK(t *testing.T) {
	e := newEditor(t)
	dir := t.TempDir()
	if err := os.Symlink(e.modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("acp", "sdk.test.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	script, log := filepath.Join(dir, "sdk.test.mjs"), filepath.Join(dir, "log.jsonl")
	if err := os.WriteFile(script, text, 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := filepath.Abs(filepath.Join("acp", "echo-server.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	e.env = append(e.env, "LOG="+log, "ECHO_SERVER="+server)
	out, failed := e.run(t, "--test-reporter=tap", script)
	checks := tap.FindAllStringSubmatch(out, -1)
	for _, c := range checks {
		t.Run(c[2], func(t *testing.T) {
			if c[1] != "" {
				t.Error("not ok; the output is below")
			}
		})
	}
	if failed != nil || len(checks) == 0 {
		t.Errorf("%v\n%s", failed, out)
	}
	checkLog(t, log)
}

// checkLog checks recorded messages against the schema.
func checkLog(t *testing.T, file string) {
	t.Helper()
	schema := loadSchema(t)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // read only
	var c *acpschema.Checker
	total := 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var l struct{ From, Line string }
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		switch l.From {
		case "start":
			c = schema.Follow(t)
		case "client":
			c.Client([]byte(l.Line))
		case "agent":
			c.Agent([]byte(l.Line))
			total++
		}
	}
	if err := lines.Err(); err != nil || total == 0 {
		t.Errorf("checked %d messages, %v", total, err)
	}
	t.Logf("%d messages of the agent were checked against the schema", total)
}

// acpx runs the command line client acpx.
func (e *editor) acpx(t *testing.T, args ...string) (string, error) {
	t.Helper()
	base := []string{filepath.Join(e.modules, "acpx", "dist", "cli.js"), "--cwd", e.workspace, "--agent", binary + " acp", "--ttl", "1"}
	return e.run(t, append(base, args...)...)
}

// TestACPX runs the usual tasks with acpx: one with an allowed command, one
// with a denied command, one that is cancelled, one with a time-out, and a
// session that continues in another process.
func TestACPX(t *testing.T) {
	e := newEditor(t)
	task := func(name string) string {
		return "rehearsal: text I set to work.\n" + call(t, "bash", map[string]string{"command": "touch " + name, "description": "Leave a trace"}) +
			"rehearsal: next\nrehearsal: text It is done."
	}
	out, err := e.acpx(t, "--approve-all", "--format", "json", "exec", task("allowed.txt"))
	if err != nil || !strings.Contains(out, `"stopReason":"end_turn"`) || !strings.Contains(out, "session/request_permission") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(e.workspace, "allowed.txt")); err != nil {
		t.Error("an allowed command has not run:", err)
	}
	checkAgentMessages(t, out)

	// acpx exits with an error if it denied a permission. The turn itself
	// continues.
	out, _ = e.acpx(t, "--deny-all", "--format", "json", "exec", task("denied.txt"))
	if !strings.Contains(out, `"status":"failed"`) || !strings.Contains(out, `"stopReason":"end_turn"`) {
		t.Errorf("%s", out)
	}
	if _, err := os.Stat(filepath.Join(e.workspace, "denied.txt")); err == nil {
		t.Error("a denied command has run")
	}
	checkAgentMessages(t, out)

	// acpx disconnects at the time-out.
	out, err = e.acpx(t, "--timeout", "3", "--format", "json", "exec", "rehearsal: chunks one |two \nrehearsal: silence")
	if err == nil || !strings.Contains(out, "Timed out") {
		t.Errorf("a turn without an end: %v\n%s", err, out)
	}
	programtest.NoneLeft(t, e.home)

	if out, err = e.acpx(t, "sessions", "new"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e.cancelSession(t)
	programtest.NoneLeft(t, e.home) // acpx keeps the agent alive for a second (--ttl), and fails to start the next one while that one is ending
	if out, err = e.acpx(t, "--approve-all", "prompt", "rehearsal: text remember me"); err != nil || !strings.Contains(out, "remember me") {
		t.Errorf("%v\n%s", err, out)
	}
	programtest.NoneLeft(t, e.home)
	out, err = e.acpx(t, "--approve-all", "--format", "json", "prompt", "What were you told?")
	if err != nil || !strings.Contains(out, `"method":"session/resume"`) || strings.Contains(out, `"method":"session/new"`) {
		t.Errorf("%v\n%s", err, out)
	}
	all := e.model.Requests()
	if !slices.ContainsFunc(all[len(all)-1].Messages, func(m demomodel.Message) bool { return m.Role == "assistant" && m.Content == "remember me" }) {
		t.Errorf("the model's last request lacks its earlier answer, in %d messages", len(all[len(all)-1].Messages))
	}
	checkAgentMessages(t, out)
	if out, err = e.acpx(t, "sessions", "list"); err != nil || !strings.Contains(out, "I begin.") {
		t.Errorf("the list: %v\n%s", err, out)
	}
}

// cancelSession starts a turn in the session and cancels it from another
// process.
func (e *editor) cancelSession(t *testing.T) {
	t.Helper()
	type result struct {
		out string
		err error
	}
	ended := make(chan result, 1)
	go func() {
		out, err := e.acpx(t, "--format", "json", "prompt", "rehearsal: text I begin.\nrehearsal: silence")
		ended <- result{out, err}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		if all := e.model.Requests(); len(all) > 0 && strings.Contains(all[len(all)-1].LastUser(), "I begin.") {
			break
		}
		if time.Now().After(deadline) {
			t.Error("the turn does not start")
			break
		}
	}
	if out, err := e.acpx(t, "cancel"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	r := <-ended
	if !strings.Contains(r.out, `"stopReason":"cancelled"`) || !strings.Contains(r.out, `"method":"session/cancel"`) {
		t.Errorf("cancelled: %v\n%s", r.err, r.out)
	}
	checkAgentMessages(t, r.out)
}

// checkAgentMessages checks the agent's messages in acpx's output, which has
// the messages of both sides, against the schema.
func checkAgentMessages(t *testing.T, out string) {
	t.Helper()
	c := loadSchema(t).Follow(t)
	for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Errorf("acpx wrote %q", l)
			continue
		}
		switch {
		case m.Method == "session/update" || m.Method == "session/request_permission" || m.Method == "fs/read_text_file":
			c.Agent([]byte(l))
		case m.Method != "":
			c.Client([]byte(l))
		case strings.Contains(string(m.Result), `"outcome"`): // an answer of the client
		default:
			c.Agent([]byte(l))
		}
	}
}
