package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

const loadingSecret = "ghp_" + "x7Qm2Lk9Rt4Vb8Zc1Np6Wd3Hs5Jf0Ga2Ye7U"

// hostileWorkspace is an untrusted workspace full of files that configure
// agents. One of its instruction files is ordinary, with a secret in it. The
// others are links, denied files, no regular files, or too large.
type hostileWorkspace struct {
	*mcpBench
	marks  string
	prompt string // instead of script's own; "" for that
}

func newHostileWorkspace(t *testing.T) *hostileWorkspace {
	t.Helper()
	b := newMCPBench(t, map[string]string{"~/.aws/credentials": "CANARY-CREDENTIALS", "~/.copilot/copilot-instructions.md": "PERSONAL-TEXT"})
	h := &hostileWorkspace{mcpBench: b, marks: filepath.Join(b.dir, "marks")}
	b.dir = filepath.Join(b.dir, "above", "ws")
	if err := runtimetest.Plant(b.dir, filepath.Join(h.marks, "..", "unused"), h.marks); err != nil {
		t.Fatal(err)
	}
	in := func(path string) string { return filepath.Join(b.dir, filepath.FromSlash(path)) }
	for _, f := range []string{"AGENTS.md", ".github/copilot-instructions.md"} {
		if err := os.Remove(in(f)); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		"GEMINI.md": "ORDINARY-TEXT with " + loadingSecret, "CLAUDE.md": "CANARY-DENIED", ".agent-policy.yaml": "reads: {deny: [CLAUDE.md]}\n",
		".github/instructions/large.instructions.md": "LARGE-TEXT " + strings.Repeat("0123456789", 1<<20) + "CANARY-END", "../AGENTS.md": "CANARY-ABOVE",
	} {
		if err := os.WriteFile(in(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(b.home, ".aws", "credentials"), in("AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(in(".github/copilot-instructions.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// script gives every loader of such files a chance to run, in the agent and in
// a sub-agent.
func (h *hostileWorkspace) script() string {
	if h.prompt != "" {
		return h.prompt
	}
	file := filepath.Join(h.dir, "sub", "file.txt")
	look := []string{tool("view", map[string]string{"path": file}), tool("lsp", map[string]string{"operation": "documentSymbol", "file": file})}
	below := strings.Join(append(look, "rehearsal: next", "rehearsal: text BELOW"), "\n")
	return strings.Join(append(look, "rehearsal: next",
		tool("task", map[string]string{"description": "look", "name": "looker", "agent_type": "general-purpose", "mode": "sync", "prompt": below}),
		"rehearsal: next", "rehearsal: text ALL-DONE"), "\n")
}

// check looks at the programs that were started, and at the requests to the
// model.
func (h *hostileWorkspace) check(t *testing.T, instructed bool) {
	t.Helper()
	if ran, err := runtimetest.Ran(h.marks); err != nil || len(ran) > 0 {
		t.Errorf("started %q, %v", ran, err)
	}
	agents := 0
	for _, q := range h.model.Requests() {
		raw, system := string(q.Raw), q.Messages[0].Content
		for _, not := range []string{"CANARY-", loadingSecret} {
			if i := strings.Index(raw, not); i >= 0 {
				t.Errorf("a request to the model has …%.60s…", raw[max(0, i-20):])
			}
		}
		leaked := slices.DeleteFunc(runtimetest.Told(raw), func(f string) bool { return instructed && strings.HasPrefix(f, ".github/instructions/") })
		if len(leaked) > 0 {
			t.Errorf("the requests to the model have %q", leaked)
		}
		if !strings.Contains(system, "GitHub Copilot") {
			continue // for example the request for a title
		}
		agents++
		if strings.Contains(system, "ORDINARY-TEXT with ") != instructed || strings.Contains(system, "LARGE-TEXT") != instructed {
			t.Errorf("the request has the workspace's instructions: %v, want %v", !instructed, instructed)
		}
		if !strings.Contains(system, "PERSONAL-TEXT") {
			t.Error("the user's own instructions are missing")
		}
	}
	if agents < 3 {
		t.Errorf("%d requests of agents", agents)
	}
	programtest.NoneLeft(t, h.home)
}

// run runs the program to its end and returns its output.
func (h *hostileWorkspace) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := h.runAnyway(stdin, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// runAnyway is run for a program that may fail.
func (h *hostileWorkspace) runAnyway(stdin string, args ...string) (string, error) {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = h.dir, h.env, strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	timer := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	return out.String(), err
}

// An untrusted workspace starts no programs, and its instruction files pass the
// guard, at every interface to an agent.
func TestAHostileWorkspaceLoadsNothing(t *testing.T) {
	doors := map[string]struct {
		through    func(t *testing.T, h *hostileWorkspace)
		instructed bool
	}{
		"run": {func(t *testing.T, h *hostileWorkspace) { h.run(t, "", "run", "--yes", h.script()) }, true},
		"run, resumed": {func(t *testing.T, h *hostileWorkspace) {
			h.run(t, "", "run", "--yes", h.script())
			h.run(t, "", "run", "--yes", "--resume", h.onlySession(t), h.script())
		}, true},
		"serve": {func(t *testing.T, h *hostileWorkspace) { h.serve(t) }, true},
		"mcp": {func(t *testing.T, h *hostileWorkspace) {
			var out taskResult
			c := h.connect(t, nil, "copilot")
			mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": h.script()}, &out)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}, true},
		"acp":                   {func(t *testing.T, h *hostileWorkspace) { h.acp(t) }, true},
		"abp":                   {func(t *testing.T, h *hostileWorkspace) { h.abp(t, nil) }, true},
		"abp, nothing readable": {func(t *testing.T, h *hostileWorkspace) { h.abp(t, map[string]any{"deny_read": []string{"**"}}) }, false},
		"orchestrate": {func(t *testing.T, h *hostileWorkspace) {
			// A pipe cannot be committed, and the directory must not be a
			// repository yet.
			for _, f := range []string{".github/copilot-instructions.md", ".git"} {
				if err := os.RemoveAll(filepath.Join(h.dir, filepath.FromSlash(f))); err != nil {
					t.Fatal(err)
				}
			}
			s := &repoBench{t: t, dir: h.dir, home: h.home, model: h.model}
			for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.email", "a@example.com"}, {"config", "user.name", "a"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
				s.git(args...)
			}
			script := strings.ReplaceAll(h.script(), h.dir+"/", "")
			plan := orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{{ID: "a", EstimatedComplexity: orchestrate.Small, Description: "Part a.\n" + script}}}
			if r, code, _ := s.run("do it", "--plan", s.plan(plan)); code != 0 || !r.Success {
				t.Fatalf("exit %d: %+v", code, r)
			}
		}, true},
	}
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			h := newHostileWorkspace(t)
			door.through(t, h)
			h.check(t, door.instructed)
		})
	}
}

// onlySession returns the ID of the only session in the list.
func (h *hostileWorkspace) onlySession(t *testing.T) string {
	t.Helper()
	var list []struct{ ID string }
	if err := json.Unmarshal([]byte(h.run(t, "", "sessions", "list", "--json")), &list); err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	return list[0].ID
}

// serve sends a request to the agent of a read-only server.
func (h *hostileWorkspace) serve(t *testing.T) {
	t.Helper()
	cmd := exec.Command(binary, "serve", "--port", "0")
	cmd.Dir, cmd.Env = h.dir, h.env
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // the exit code does not matter here
	}()
	url := ""
	for deadline := time.Now().Add(time.Minute); url == ""; url = printedURL.FindString(out.String()) {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not start:\n%s", out)
		}
		<-time.After(20 * time.Millisecond)
	}
	body, err := json.Marshal(map[string]any{"model": "agent/" + h.model.Model(), "messages": []map[string]string{{"role": "user", "content": h.script()}}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: 2 * time.Minute}).Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || !strings.Contains(string(text), "ALL-DONE") {
		t.Fatalf("%s, %v\n%s", text, err, out)
	}
}

// abp runs one work order.
func (h *hostileWorkspace) abp(t *testing.T, policy map[string]any) {
	t.Helper()
	order := map[string]any{"id": "11111111-2222-4333-8444-555555555555", "task": h.script(), "workspace": map[string]any{"root": "."}}
	if policy != nil {
		order["policy"] = policy
	}
	line, err := json.Marshal(map[string]any{"t": "run", "id": "r", "work_order": order})
	if err != nil {
		t.Fatal(err)
	}
	if out := h.run(t, string(line)+"\n", "abp"); !strings.Contains(out, `"t":"final"`) {
		t.Fatal(out)
	}
}

// acp is an editor that opens a session, sends one prompt and allows every
// request.
func (h *hostileWorkspace) acp(t *testing.T) {
	t.Helper()
	cmd := exec.Command(binary, "acp")
	cmd.Dir, cmd.Env = h.dir, h.env
	stderr := &output{}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	call := func(id int, method string, params any) (result map[string]any) {
		t.Helper()
		raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(in, "%s\n", raw); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct {
					Options []struct{ OptionID, Kind string }
				}
				Result map[string]any
				Error  json.RawMessage
			}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Fatal(err)
			}
			switch {
			case m.Method == "session/request_permission":
				i := slices.IndexFunc(m.Params.Options, func(o struct{ OptionID, Kind string }) bool { return o.Kind == "allow_once" })
				if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`+"\n", m.ID, m.Params.Options[i].OptionID); err != nil {
					t.Fatal(err)
				}
			case m.Method == "" && string(m.ID) == fmt.Sprint(id):
				if m.Error != nil {
					t.Fatalf("%s: %s", method, m.Error)
				}
				return m.Result
			}
		}
		t.Fatalf("%s: no answer\n%s", method, stderr)
		return nil
	}
	call(1, "initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}, "clientInfo": map[string]any{"name": "an editor", "version": "7"}})
	session := call(2, "session/new", map[string]any{"cwd": h.dir, "mcpServers": []any{}})
	call(3, "session/prompt", map[string]any{"sessionId": session["sessionId"], "prompt": []any{map[string]any{"type": "text", "text": h.script()}}})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	for lines.Scan() { // reads the remaining output
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, stderr)
	}
}
