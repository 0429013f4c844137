package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

const twoParts = `{"tasks":[{"id":"a","description":"do a","estimatedComplexity":"S"},{"id":"b","description":"do b\nand more","estimatedComplexity":"L"}],"dependencies":{"b":["a"]}}`

func TestOrchestrateUsage(t *testing.T) {
	for _, tt := range []struct{ args, stderr string }{
		{"orchestrate", "give a task, --plan FILE, --resume ID, --discard ID or --list|see `copilot-bridge orchestrate --help`"},
		{"orchestrate x --isolation none", `--isolation="none": must be one of worktree, shared`},
		{"orchestrate x --merge none", `--merge="none": must be one of tree, branch`},
		{"orchestrate x --plan-only=xml", `--plan-only="xml": must be one of text, json, mermaid`},
		{"orchestrate x --max-concurrency 0", "must be at least 1"},
		{"orchestrate x --max-concurrency -1", "must be at least 1"},
		{"orchestrate x --timeout soon", "must be a duration"},
		{"orchestrate x --timeout -1s", "must be positive"},
		{"orchestrate x --resume last", "leave TASK, --plan and --plan-only out"},
		{"orchestrate --resume last --merge tree", "leave --merge, --isolation and --cwd out"},
		{"orchestrate --list --resume last", "--list cannot be combined"},
		{"orchestrate - --plan -", "not both"},
		{"orchestrate --plan nonesuch", "cannot read the plan nonesuch: no such file"},
		{"orchestrate --plan broken.json", "broken.json: the plan has no tasks|correct the plan"},
		{"orchestrate --plan linked.json", "cannot read the plan linked.json: |escapes"},
		{"orchestrate x --cwd nonesuch", "nonesuch does not exist"},
	} {
		w := newWorld(t)
		if err := os.WriteFile(filepath.Join(w.Dir, "broken.json"), []byte(`{"tasks":[]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(t.TempDir(), "private"), filepath.Join(w.Dir, "linked.json")); err != nil {
			t.Fatal(err)
		}
		if code := w.run(strings.Fields(tt.args)...); code != 2 {
			t.Errorf("%s: exit %d", tt.args, code)
		}
		for want := range strings.SplitSeq(tt.stderr, "|") {
			if !strings.Contains(w.err.String(), want) {
				t.Errorf("%s: stderr lacks %q:\n%s", tt.args, want, w.err)
			}
		}
	}
	w := newWorld(t)
	if code := w.run("orchestrate", "--resume", "2026"); code != 1 || !strings.Contains(w.err.String(), "orchestrate --list") {
		t.Errorf("exit %d: %s", code, w.err)
	}
}

// With --json the last line is a result, whatever goes wrong.
func TestOrchestrateAlwaysEndsWithAResult(t *testing.T) {
	for _, args := range [][]string{{"orchestrate", "--json", "--resume", "2026"}, {"orchestrate", "x", "--json", "--cwd", "nonesuch"}, {"orchestrate", " ", "--json"}} {
		w := newWorld(t)
		code := w.run(args...)
		lines := strings.Split(strings.TrimSpace(w.out.String()), "\n")
		var last struct {
			Type     string
			ExitCode int `json:"exit_code"`
			Error    *bridge.Error
			Tasks    []orchestrate.TaskResult
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Type != "result" || last.ExitCode != code || last.Error == nil || last.Tasks == nil {
			t.Errorf("%v: exit %d, %v: %s", args, code, err, w.out)
		}
	}
}

// A plan of the user's can be seen without anything being started.
func TestPlanOnlyOfAFile(t *testing.T) {
	for form, want := range map[string]string{
		"--plan-only":         "Wave 1\n  S  a  do a\nWave 2\n  L  b  do b…  (after a)\nLongest path: a → b\n",
		"--plan-only=mermaid": "flowchart TD\n  t0[\"a (S)<br/>do a\"]\n  t1[\"b (L)<br/>do b…\"]\n  t0 --> t1\n",
		"--plan-only=json":    twoParts + "\n",
	} {
		w := newWorld(t)
		w.Stdin = strings.NewReader(twoParts)
		if code := w.run("orchestrate", "--plan", "-", form); code != 0 || w.out.String() != want || w.err.String() != "" {
			t.Errorf("%s: exit %d\n%s\n%s", form, code, w.out, w.err)
		}
	}
}

func TestListRuns(t *testing.T) {
	w := newWorld(t)
	if code := w.run("orchestrate", "--list"); code != 0 || !strings.Contains(w.err.String(), "no runs yet") {
		t.Errorf("exit %d: %s", code, w.err)
	}
	dir := filepath.Join(w.home, ".copilot-bridge", "runs", "20260101-000000-abcdef")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	meta, err := json.Marshal(orchestrate.Meta{Version: 1, ID: filepath.Base(dir), Task: "do \x1b[31mit", Dir: filepath.Join(w.home, "src")})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), meta, 0o600); err != nil {
		t.Fatal(err)
	}
	w.run("orchestrate", "--list")
	if want := "20260101-000000-abcdef  interrupted  ~/src  do \\x1b[31mit\n"; w.out.String() != want {
		t.Errorf("%q", w.out)
	}
	if meta, err = json.Marshal(orchestrate.Meta{Version: 1, ID: filepath.Base(dir), Title: "do it\nnow", Dir: filepath.Join(w.home, "src")}); err == nil {
		err = os.WriteFile(filepath.Join(dir, "run.json"), meta, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if w.run("orchestrate", "--list"); !strings.HasSuffix(w.out.String(), "~/src  do it…\n") {
		t.Errorf("%q", w.out)
	}
	out := &buffer{}
	w.Stdout = out
	if w.run("__complete", "orchestrate", "--resume", ""); !strings.Contains(out.String(), "20260101-000000-abcdef\tdo") || !strings.HasPrefix(out.String(), "last\t") {
		t.Error(out)
	}
}

func TestOrchestrateVerdict(t *testing.T) {
	failed := orchestrate.TaskResult{ID: "a", State: orchestrate.Failed, Error: &bridge.Error{Code: bridge.CodeUnavailable, Message: "no runtime"}}
	done := orchestrate.TaskResult{ID: "b", State: orchestrate.Done, Success: true}
	for _, tt := range []struct {
		r    orchestrate.Result
		code int
	}{
		{orchestrate.Result{Success: true, Done: 1, Tasks: []orchestrate.TaskResult{done}}, exitDone},
		{orchestrate.Result{Done: 1, Failed: 1, Tasks: []orchestrate.TaskResult{failed, done}}, exitPartly},
		{orchestrate.Result{Done: 1, Tasks: []orchestrate.TaskResult{done}, Conflicts: []orchestrate.Conflict{{}}}, exitPartly},
		{orchestrate.Result{Failed: 1, Tasks: []orchestrate.TaskResult{failed}}, exitUnavailable},
	} {
		if got := exitCode(orchestrateVerdict(tt.r)); got != tt.code {
			t.Errorf("%+v: %d, want %d", tt.r, got, tt.code)
		}
	}
}
