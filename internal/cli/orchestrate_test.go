package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

const twoParts = `{"tasks":[{"id":"a","description":"do a","estimatedComplexity":"S"},{"id":"b","description":"do b\nand more","estimatedComplexity":"L"}],"dependencies":{"b":["a"]}}`

func TestOrchestrateUsage(t *testing.T) {
	for _, tt := range []struct{ args, stderr string }{
		{"orchestrate", "give a task in quotes, --plan FILE, --resume ID, --discard ID or --list|see `copilot-bridge orchestrate --help`"},
		{"orchestrate a b", "accepts one task in quotes"},
		{"orchestrate x --isolation none", `invalid argument "none" for "--isolation" flag: must be one of worktree, shared`},
		{"orchestrate x --merge none", `invalid argument "none" for "--merge" flag: must be one of tree, branch`},
		{"orchestrate x --plan-only=xml", `invalid argument "xml" for "--plan-only" flag: must be one of text, json, mermaid`},
		{"orchestrate x --max-concurrency 0", "must be at least 1"},
		{"orchestrate x --max-concurrency -1", "must be at least 1"},
		{"orchestrate x --timeout soon", "invalid argument"},
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
		var last orchestratedLine
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

// boardEvents is a run of four tasks: one done, one failed, one skipped.
func boardEvents(t *testing.T) []orchestrate.Event {
	t.Helper()
	plan, err := orchestrate.ParsePlan([]byte(`{"tasks":[{"id":"parse","description":"x"},{"id":"print","description":"x"},{"id":"both","description":"x"},{"id":"docs","description":"x"}],"dependencies":{"both":["parse","print"],"docs":["parse"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	return []orchestrate.Event{
		{Type: orchestrate.RunStarted, Run: "r-1"},
		{Type: orchestrate.TaskProgress, Text: "view src"},
		{Type: orchestrate.PlanReady, Plan: &plan},
		{Type: orchestrate.TaskStarted, Task: "parse", Wave: 1, Attempt: 1},
		{Type: orchestrate.TaskStarted, Task: "print", Wave: 1, Attempt: 1},
		{Type: orchestrate.TaskProgress, Task: "parse", Text: "edit parse.go", Usage: &bridge.Usage{InputTokens: 1200, OutputTokens: 34}},
		{Type: orchestrate.TaskCompleted, Task: "parse", Result: &orchestrate.TaskResult{ID: "parse", State: orchestrate.Done, Duration: 3 * time.Second,
			Outcome: orchestrate.Outcome{Files: []string{"parse.go"}, Usage: bridge.Usage{InputTokens: 1300, OutputTokens: 50}}}},
		{Type: orchestrate.TaskStarted, Task: "docs", Wave: 2, Attempt: 1},
		{Type: orchestrate.TaskCompleted, Task: "print", Result: &orchestrate.TaskResult{ID: "print", State: orchestrate.Failed, Duration: time.Second,
			Error: &bridge.Error{Message: "the model \x1b[31mis gone"}}},
		{Type: orchestrate.TaskSkipped, Task: "both", Result: &orchestrate.TaskResult{ID: "both", State: orchestrate.Skipped, Reason: "it depends on print, which failed"}},
	}
}

func TestBoardOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		screen := newVT(t)
		screen.width = 80
		c := testConsole(t, screen, screen, true, true)
		c.width = func() int { return 80 }
		b := newBoard(c)
		stop := b.tick()
		events := boardEvents(t)
		for _, e := range events[:6] {
			b.event(e)
		}
		time.Sleep(2*time.Second + time.Millisecond) // virtual
		synctest.Wait()
		if got, want := screen.String(), `run r-1
  1 ┬ ● parse  edit parse.go  1 234 tokens  2 s
    └ ● print  starting  2 s
  2 ┬ · both   waits for parse, print
    └ · docs   waits for parse`; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		for _, e := range events[6:] {
			b.event(e)
		}
		stop()
		b.finish(orchestrate.Result{Run: "r-1", Done: 1, Duration: 4 * time.Second, Speedup: 1.5, Files: []string{"parse.go"}, Kept: []string{"copilot-bridge/r-1/task-print"}},
			&bridge.Error{Code: bridge.CodeInternal})
		if got, want := screen.String(), `run r-1
  1 ┬ ✓ parse  1 file  1 350 tokens  3.0 s
    └ ✗ print  the model \x1b[31mis gone  1.0 s
  2 ┬ – both   it depends on print, which failed
    └ ● docs   starting
partly done after 4.0 s · 1.5 times as fast as one after another
  1 file changed: parse.go
  work that is not included is kept on the branch copilot-bridge/r-1/task-print
  resume with: copilot-bridge orchestrate --resume r-1
`; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestBoardInAPipe(t *testing.T) {
	out := &buffer{}
	b := newBoard(testConsole(t, out, out, false, false))
	for _, e := range boardEvents(t) {
		b.event(e)
	}
	if got, want := out.String(), `run r-1
● parse started
● print started
✓ parse  1 file  1 350 tokens  3.0 s
● docs started
✗ print  the model \x1b[31mis gone  1.0 s
– both   it depends on print, which failed
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A plan that does not fit on the screen is counted instead.
func TestBoardOfManyTasks(t *testing.T) {
	p := orchestrate.TaskPlan{}
	for i := range 40 {
		p.Tasks = append(p.Tasks, orchestrate.SubTask{ID: string(rune('A' + i)), Description: "x", EstimatedComplexity: orchestrate.Small})
	}
	b := newBoard(testConsole(t, &buffer{}, &buffer{}, false, true))
	b.event(orchestrate.Event{Type: orchestrate.PlanReady, Plan: &p})
	b.event(orchestrate.Event{Type: orchestrate.TaskStarted, Task: "C"})
	lines := b.drawing()
	if len(lines) != 2 || !strings.Contains(lines[0].text, "● C") || lines[1].text != "  and 39 pending" {
		t.Errorf("%+v", lines)
	}
}
