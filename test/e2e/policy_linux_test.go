package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// livePolicy is a workspace whose policy changes while programs use it.
type livePolicy struct {
	t    *testing.T
	dir  string
	env  []string
	home string
}

func (p livePolicy) write(text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, ".agent-policy.yaml"), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// command runs another copilot-bridge command beside the one that is tested.
func (p livePolicy) command(args ...string) string {
	p.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// within polls until a call's answer has all of the texts. A change of the
// policy must show within a second; the rest is for busy machines.
func (p livePolicy) within(what string, call func() string, want ...string) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	got := ""
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-tick.C {
		got = call()
		missing := false
		for _, w := range want {
			missing = missing || !strings.Contains(got, w)
		}
		if !missing {
			return
		}
	}
	p.t.Errorf("%s: %s", what, got)
}

// changes are the entries of the log about changes of the policy.
func (p livePolicy) changes() (out []auditEntry) {
	for _, e := range auditEntries(p.t, p.dir, p.env) {
		if e.Hook == "policy" {
			out = append(out, e)
		}
	}
	return out
}

// cases are all the ways in which a policy can change. read reads secret.txt,
// and make writes made.txt, which is a question that nobody answers unless the
// policy says readOnly: false.
func (p livePolicy) cases(read, list, write func() string) {
	p.t.Helper()
	const denied = `reads.deny \"secret.txt\"`
	file := filepath.Join(p.dir, ".agent-policy.yaml")
	p.within("no policy", read, "CANARY-LIVE")
	p.write("reads: {deny: [secret.txt]}\n")
	p.within("a denial was added", read, denied, file+":1")
	if got := list(); strings.Contains(got, "secret.txt") || !strings.Contains(got, "plain.txt") {
		p.t.Errorf("the list: %s", got)
	}
	p.write("reads: {deny: [others.txt]}\n")
	p.within("the rule was removed", read, "CANARY-LIVE")

	p.write("reads: {deny: [secret.txt]}\nwrites: {deny\n")
	p.within("a broken file", read, "the policy cannot be used", file+":2", "Correct "+file)
	p.within("a broken file denies all", write, "the policy cannot be used")
	p.write("reads: {deny: [others.txt]}\n")
	p.within("a mended file", read, "CANARY-LIVE")

	if err := errors.Join(os.WriteFile(file+".new", []byte("reads: {deny: [secret.txt]}\n"), 0o600), os.Rename(file+".new", file)); err != nil {
		p.t.Fatal(err)
	}
	p.within("replaced by rename", read, denied)
	if err := os.Remove(file); err != nil {
		p.t.Fatal(err)
	}
	p.within("removed", read, "CANARY-LIVE")
	user := filepath.Join(p.home, ".copilot-bridge", "policy.yaml")
	old, err := os.ReadFile(user)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(user, append([]byte("reads: {deny: [secret.txt]}\n"), old...), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.within("the user's own", read, denied, user+":1")
	if err := os.WriteFile(user, old, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.within("the user's own, taken back", read, "CANARY-LIVE")
	if got := write(); !strings.Contains(got, "made.txt") {
		p.t.Errorf("a write: %s", got)
	}
}

// checkChanges looks for the changes of cases in the log: hashes that follow
// each other, and why.
func (p livePolicy) checkChanges(door string, want ...string) {
	p.t.Helper()
	last, seen := "", 0
	for _, e := range p.changes() {
		var in struct{ Before, SHA256 string }
		if err := json.Unmarshal(e.Input, &in); err != nil {
			p.t.Fatal(err)
		}
		if e.Door != door || len(in.Before) != 64 || len(in.SHA256) != 64 || in.Before == in.SHA256 || last != "" && in.Before != last {
			p.t.Errorf("%+v", e)
		}
		last = in.SHA256
		if seen < len(want) && strings.Contains(e.Reason, want[seen]) && (e.Decision == "deny") == strings.Contains(e.Reason, "cannot be used") {
			seen++
		}
	}
	if seen < len(want) {
		p.t.Errorf("%q is not on record: %+v", want[seen], p.changes())
	}
}

// The tool bus and the file tools of MCP follow the policy files.
func TestPolicyWhileRunning(t *testing.T) {
	t.Parallel()
	changes := []string{"was added", "was edited", "cannot be used", "can be used again", "was edited", "was removed", "policy.yaml was", "policy.yaml was"}
	files := map[string]string{"secret.txt": "CANARY-LIVE\n", "plain.txt": "plain\n"}
	t.Run("bus", func(t *testing.T) {
		t.Parallel()
		s := serveFiles(t, files, nil)
		p := livePolicy{t: t, dir: s.dir, env: s.env, home: s.home}
		w, _ := s.dial(t, nil) // one connection for all
		n := 0
		call := func(method string, params map[string]any) func() string {
			return func() string {
				n++
				w.send(toJSON(map[string]any{"jsonrpc": "2.0", "id": n, "method": method, "params": params}))
				return w.waitForMessage(fmt.Sprintf(`"jsonrpc":"2.0","id":%d,`, n))
			}
		}
		write := call("mcp.edit.applyPatch", map[string]any{"unifiedDiff": "--- /dev/null\n+++ b/made.txt\n@@ -0,0 +1 @@\n+x\n"})
		p.cases(call("mcp.fs.read", map[string]any{"path": "secret.txt"}), call("mcp.fs.list", map[string]any{}), write)
		p.checkChanges("toolbus", changes...)
		checkCallers(t, p.dir, p.env, "toolbus", "Go-http-client/1.1", `^req_\w+$`, `^\d+$`)

		// What eases counts once it is trusted, and not after the next edit.
		status := call("bridge.status", map[string]any{})
		p.write("readOnly: false\n")
		p.within("untrusted", status, `"readOnly":true`)
		if got := write(); !strings.Contains(got, "-32010") {
			t.Errorf("an untrusted file lets write: %s", got)
		}
		p.command("trust", "--yes")
		p.within("trusted", status, `"readOnly":false`)
		p.within("trusted", write, `"ok":true`)
		p.write("readOnly: false\n\n")
		p.within("edited after that", call("mcp.edit.applyPatch", map[string]any{"unifiedDiff": "--- /dev/null\n+++ b/more.txt\n@@ -0,0 +1 @@\n+x\n"}), "-32010")
		p.write("readOnly: [\n")
		p.within("tasks under a broken file", call("mcp.task.list", map[string]any{}), `"tasks":[]`, "the policy cannot be used")
		p.checkChanges("toolbus", "is trusted now", "is not trusted any more", "cannot be used")
		if got := call("mcp.edit.applyPatch", map[string]any{"unifiedDiff": "--- a/.agent-policy.yaml\n+++ b/.agent-policy.yaml\n@@ -1 +1 @@\n-readOnly: [\n+{}\n"})(); !strings.Contains(got, "-32010") {
			t.Errorf("a client may write the policy: %s", got)
		}
	})
	t.Run("mcp", func(t *testing.T) {
		t.Parallel()
		b := newMCPBench(t, files)
		if err := os.MkdirAll(filepath.Join(b.home, ".copilot-bridge"), 0o700); err != nil {
			t.Fatal(err)
		}
		p := livePolicy{t: t, dir: b.dir, env: b.env, home: b.home}
		c := b.connect(t, nil, "copilot")
		call := func(tool string, args map[string]any) func() string {
			return func() string { return toJSON(mcpText(mcpCall(t, c, tool, args, nil))) }
		}
		p.cases(call("copilot_read_file", map[string]any{"path": "secret.txt"}), call("copilot_list_files", nil), call("copilot_create_file", map[string]any{"path": "made.txt", "content": "x"}))
		p.checkChanges("mcp", changes...)
		checkCallers(t, p.dir, p.env, "mcp", "test 1", `^stdio$`, `^call-\d+$`)
	})
}

// A session that is live follows the policy files from one call to the next,
// at every interface to an agent, and so does its sandbox.
func TestPolicyChangesDuringATurn(t *testing.T) {
	callers := map[string][3]string{"cli": {"copilot-bridge"}, "http": {"Go-http-client/1.1", "", `^req_\w+$`}, "mcp": {"test 1", `^stdio$`, `^call-\d+$`},
		"acp": {"an editor 7"}, "abp": {"Agent Backplane host"}}
	doors := map[string]func(t *testing.T, h *hostileWorkspace){
		"cli": func(t *testing.T, h *hostileWorkspace) {
			_, err := h.runAnyway("", "run", h.script())
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 5 {
				t.Errorf("a call was denied: %v", err)
			}
		},
		"http": func(t *testing.T, h *hostileWorkspace) { h.serve(t) },
		"mcp": func(t *testing.T, h *hostileWorkspace) {
			var out taskResult
			mcpCall(t, h.connect(t, nil, "copilot"), "copilot_code_task", map[string]any{"prompt": h.script()}, &out)
		},
		"acp": func(t *testing.T, h *hostileWorkspace) { h.acp(t) },
		"abp": func(t *testing.T, h *hostileWorkspace) { h.abp(t, nil) },
	}
	_, err := exec.LookPath("bwrap")
	sandbox := err == nil
	for door, through := range doors {
		t.Run(door, func(t *testing.T) {
			h := &hostileWorkspace{mcpBench: newMCPBench(t, map[string]string{"secret.txt": "CANARY-LIVE\n", "before.txt": "BEFORE-TEXT\ntoken=" + loadingSecret + "\n", "peek.sh": "echo peeked; cat secret.txt\n",
				"wait.sh": "touch started; until [ -e go ]; do sleep 0.05; done\n", ".agent-policy.yaml": "{}\n", "~/.copilot-bridge/policy.yaml": "readOnly: false\nshell: {allow: ['bash *', 'sleep *', pwd]}\n"})}
			view := func(name string) string { return tool("view", map[string]string{"path": filepath.Join(h.dir, name)}) }
			bash := func(line string) string {
				return tool("bash", map[string]string{"command": line, "description": "x"})
			}
			steps := []string{view("before.txt"), bash("bash wait.sh"), view("secret.txt"), view("before.txt")}
			if sandbox {
				steps = append(steps, bash("bash peek.sh"))
			}
			h.prompt = strings.Join(append(steps, "rehearsal: text ALL-DONE"), "\nrehearsal: next\n")
			changed := make(chan error, 1)
			go func() {
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				deadline := time.After(patience)
				for {
					if _, err := os.Stat(filepath.Join(h.dir, "started")); err == nil {
						break
					}
					select {
					case <-tick.C:
					case <-deadline:
						changed <- errors.New("the command was not started")
						return
					}
				}
				changed <- errors.Join(os.WriteFile(filepath.Join(h.dir, ".agent-policy.yaml"), []byte("reads: {deny: [secret.txt]}\n"), 0o600),
					os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
			}()
			through(t, h)
			if err := <-changed; err != nil {
				t.Fatal(err)
			}
			all := ""
			for _, q := range h.model.Requests() {
				all += string(q.Raw)
			}
			for text, want := range map[string]bool{"CANARY-LIVE": false, "BEFORE-TEXT": true, `reads.deny`: true, "peeked": sandbox} {
				if strings.Contains(all, text) != want {
					t.Errorf("%q in requests to the model: %v", text, !want)
				}
			}
			p := livePolicy{t: t, dir: h.dir, env: h.env, home: h.home}
			recorded := false
			for _, e := range p.changes() {
				recorded = recorded || e.Door == door && e.Session != "" && strings.HasSuffix(e.Reason, ".agent-policy.yaml was edited")
			}
			if !recorded {
				t.Errorf("the change is not on record: %+v", p.changes())
			}
			c := callers[door]
			for _, e := range checkCallers(t, p.dir, p.env, door, c[0], c[1], c[2]) {
				if e.Session == "" && !strings.HasPrefix(e.Tool, "mcp.") {
					t.Errorf("an entry without its session: %+v", e)
				}
			}
		})
	}
}
