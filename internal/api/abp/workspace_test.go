package abp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.email=a@example.com", "-c", "user.name=a", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// repository makes the workspace one, with a file that can be changed.
func (s *stage) repository(t *testing.T) {
	t.Helper()
	s.file(t, "a.txt", "one\n")
	git(t, s.ws, "init", "-q")
	git(t, s.ws, "add", "a.txt")
	git(t, s.ws, "commit", "-q", "-m", "first")
}

func TestVerification(t *testing.T) {
	s := newStage(t)
	s.repository(t)
	edit := tool("edit", map[string]any{"path": filepath.Join(s.ws, "a.txt"), "old_str": "one", "new_str": "two"})
	r := s.do(t, s.order(script(edit, tool("create", map[string]any{"path": filepath.Join(s.ws, "b.txt"), "file_text": "x"}),
		tool("bash", map[string]any{"command": "seq 1 5000", "description": "x"}), "next", "text ok"), nil))
	v := r.Verification
	if v.GitDiff == nil || !strings.Contains(*v.GitDiff, "\n-one\n+two\n") || v.GitStatus == nil || *v.GitStatus != " M a.txt\n?? b.txt\n" || !v.HarnessOK {
		t.Errorf("%+v", v)
	}
	if len(r.Artifacts) != 1 {
		t.Errorf("%v", r.Artifacts) // which git does not mention
	}
}

// A staged workspace is worked in as it is given, without what it leaves out;
// and a proposal changes nothing of the user's own.
func TestLanesAndStages(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.repository(t)
	s.file(t, "out/x.txt", "X")
	edit := script(tool("edit", map[string]any{"path": filepath.Join(s.ws, "a.txt"), "old_str": "one", "new_str": "two"}),
		tool("view", map[string]any{"path": filepath.Join(s.ws, "out/x.txt")}), tool("bash", map[string]any{"command": "touch made", "description": "x"}), "next", "text ok")
	place := func(lane, mode string) map[string]any {
		return map[string]any{"lane": lane, "workspace": map[string]any{"root": s.ws, "mode": mode, "include": []string{}, "exclude": []string{"out/**"}}}
	}
	denied := func(r *contract.Receipt) (out []string) {
		for _, e := range of(r, contract.ToolResult) {
			if e.IsError {
				out = append(out, e.Tool)
			}
		}
		return out
	}
	r := s.do(t, s.order(edit, place("patch_first", "pass_through")))
	if d := denied(r); len(d) != 2 || !warned(r, "lane patch_first") || *r.Verification.GitDiff != "" {
		t.Errorf("%v %+v", d, of(r, contract.Warning))
	}
	if !strings.Contains(prompts(s.model), "Propose the changes as one unified diff") {
		t.Error("the agent was not told to propose")
	}
	r = s.do(t, s.order(edit, place("patch_first", "staged")))
	if d := denied(r); len(d) != 1 || d[0] != "view" || !strings.Contains(*r.Verification.GitDiff, "+two") {
		t.Errorf("%v %+v", d, of(r, contract.Warning))
	}
	git(t, s.ws, "checkout", "-q", "a.txt")
	r = s.do(t, s.order(edit, place("workspace_first", "pass_through")))
	if d := denied(r); len(d) != 0 || !strings.Contains(*r.Verification.GitDiff, "+two") {
		t.Errorf("%v %+v", d, of(r, contract.Warning))
	}
}

// The fields of config and config.vendor.copilot reach the session.
func TestVendorFields(t *testing.T) {
	s := newStage(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.policy(t, "shell: {allow: [\""+self+"\", \"printenv *\"]}\n")
	copilot := map[string]any{
		"systemMessage":  map[string]any{"mode": "append", "content": "SYSTEM-42"},
		"availableTools": []string{"bash", "view", "files-echo"}, "excludedTools": []string{"view"},
		"mcp_servers":    map[string]any{"files": map[string]any{"command": self, "env": map[string]string{"ABP_TEST_MCP": "1"}, "timeout": 10000}},
		"responseFormat": map[string]any{"name": "n", "schema": map[string]any{"type": "object", "properties": map[string]any{"SCHEMA-7": map[string]any{"type": "string"}}}},
		"model":          "model-from-vendor", "reasoningEffort": "high",
	}
	r := s.do(t, s.order(script(tool("bash", map[string]any{"command": "printenv FROM_ORDER", "description": "x"}), tool("files-echo", map[string]any{"text": "there"}), "next", "text {}"), map[string]any{
		"config": map[string]any{"model": "model-of-config", "env": map[string]string{"FROM_ORDER": "42", "PATH": os.Getenv("PATH")}, "vendor": map[string]any{"copilot": copilot}}}))
	results := of(r, contract.ToolResult)
	if len(results) != 2 {
		t.Fatalf("%+v", r.Trace)
	}
	all := string(contract.AppendValue(nil, results[0].Output)) + string(contract.AppendValue(nil, results[1].Output))
	if !strings.Contains(all, "42\\n") || !strings.Contains(all, "echo: there") {
		t.Errorf("%s", all)
	}
	q := s.model.Requests()[0]
	var names []string
	for _, t := range q.Tools {
		names = append(names, t.Name)
	}
	if got := strings.Join(names, " "); !strings.Contains(got, "bash") || strings.Contains(got, "view") || strings.Contains(got, "create") || !strings.Contains(got, "files-echo") {
		t.Errorf("tools %s", got)
	}
	for _, want := range []string{"SYSTEM-42", "SCHEMA-7", "model-from-vendor", `"reasoning_effort":"high"`} {
		if !strings.Contains(string(q.Raw), want) {
			t.Errorf("no %s in the request", want)
		}
	}
	if strings.Contains(string(q.Raw), "model-of-config") {
		t.Error("the vendor's model does not come first")
	}
}

// A later run may go on where an earlier one ended.
func TestResume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first := s.do(t, s.order("remember WORD-1\nrehearsal: text ok", nil))
	resume := map[string]any{"config": map[string]any{"vendor": map[string]any{"copilot": map[string]any{"sessionId": string(first.Meta.RunID)}}}}
	r := s.do(t, s.order("and now\nrehearsal: text ok", resume))
	all := s.model.Requests()
	if last := string(all[len(all)-1].Raw); !strings.Contains(last, "WORD-1") || !strings.Contains(r.Trace[0].Message, "goes on") {
		t.Errorf("%s", r.Trace[0].Message)
	}
	tr := s.run(t, s.order("x", map[string]any{"config": map[string]any{"vendor": map[string]any{"copilot": map[string]any{"sessionId": "ffffffff"}}}}))
	tr.fatal(t)
}

// Passed through, every event of the runtime is there in its own words, once,
// and secrets are not.
func TestPassthrough(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	s.file(t, "secret.txt", "token "+token+"\n")
	for _, vendor := range []map[string]any{{"abp": map[string]any{"mode": "passthrough"}}, {"abp.mode": "passthrough"}} {
		r := s.do(t, s.order(script("reason thinking hard", tool("bash", map[string]any{"command": "cat secret.txt", "description": "x"}), "next", "chunks it is ghp_0123456789abc|defghijABCDEFGHIJ012345 |indeed"),
			map[string]any{"config": map[string]any{"vendor": vendor}}))
		if r.Mode != contract.Passthrough {
			t.Errorf("mode %s", r.Mode)
		}
		seen, plain := map[string]int{}, ""
		for _, e := range r.Trace {
			b := string(contract.AppendEnvelope(nil, &contract.Happened{Event: e}))
			if strings.Contains(b, token) {
				t.Errorf("a secret in %s", b)
			}
			if e.Kind == contract.AssistantDelta {
				plain += e.Text
			}
			for _, m := range e.Ext {
				if o, ok := m.Value.(contract.Object); ok && m.Key == "raw_message" {
					for _, f := range o {
						if kind, ok := f.Value.(string); ok && f.Key == "type" {
							seen[kind+" as "+string(e.Kind)]++
						}
					}
				}
			}
		}
		if plain != "it is [REDACTED] indeed" {
			t.Errorf("text %q", plain)
		}
		for _, want := range []string{"user.message as assistant_delta", "tool.execution_start as tool_call", "tool.execution_complete as tool_result",
			"assistant.message as assistant_message", "assistant.usage as assistant_delta", "session.idle as assistant_delta", "text as assistant_delta"} {
			if seen[want] == 0 {
				t.Errorf("no %s in %v", want, seen)
			}
		}
	}
}
