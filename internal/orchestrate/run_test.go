package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// diamond edits one file in places apart, adds, removes and builds on what
// went before.
func diamond() TaskPlan {
	return TaskPlan{
		Tasks: []SubTask{
			task("top", "replace big.txt line-00 TOP", "write new/one.txt one"),
			task("left", "replace big.txt line-20 LEFT", "append new/one.txt left"),
			task("right", "replace big.txt line-40 RIGHT", "remove old.txt"),
			task("alone", "write alone.txt alone"),
			task("bottom", "replace big.txt line-59 BOTTOM", "replace new/one.txt left LEFT-AND-BOTTOM"),
		},
		Dependencies: map[string][]string{"left": {"top"}, "right": {"top"}, "bottom": {"left", "right"}},
	}
}

func diamondTree() map[string]string {
	big := numbered(60)
	for old, text := range map[string]string{"line-00": "TOP", "line-20": "LEFT", "line-40": "RIGHT", "line-59": "BOTTOM"} {
		big = strings.Replace(big, old, text, 1)
	}
	return map[string]string{"big.txt": big, "new/one.txt": "one\nLEFT-AND-BOTTOM\n", "alone.txt": "alone\n", "README.md": "hello\n"}
}

func (y *yard) expect(files map[string]string) {
	y.t.Helper()
	for name, want := range files {
		if got := y.read(name); got != want {
			y.t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestRunIntoTree(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	// Work of the user's own: staged, changed, untracked, ignored.
	y.write("README.md", "hello\nstaged\n")
	y.git("add", "README.md")
	y.write("README.md", "hello\nstaged\nand more\n")
	y.write("notes.txt", "mine\n")
	y.write("ignored/cache", "mine\n")
	index := y.git("ls-files", "--stage")
	r, err := Run(t.Context(), y.options(diamond()))
	if err != nil || !r.Success || r.Done != 5 {
		t.Fatalf("%v: %+v", err, r)
	}
	want := diamondTree()
	want["README.md"], want["notes.txt"], want["ignored/cache"] = "hello\nstaged\nand more\n", "mine\n", "mine\n"
	y.expect(want)
	if _, err := os.Stat(filepath.Join(y.dir, "old.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Error("old.txt is still there")
	}
	if got := y.git("ls-files", "--stage"); got != index {
		t.Errorf("the index was changed:\n%s\n%s", index, got)
	}
	if got := y.git("log", "--oneline"); strings.Count(got, "\n") != 0 {
		t.Errorf("commits were made:\n%s", got)
	}
	if want := []string{"alone.txt", "big.txt", "new/one.txt", "old.txt"}; !slices.Equal(r.Files, want) {
		t.Error(r.Files)
	}
	if !slices.Equal(r.Tasks[1].Files, []string{"big.txt", "new/one.txt"}) || r.Usage.InputTokens != 50 || r.CriticalPath[0] != "top" || len(r.CriticalPath) != 3 || r.Speedup <= 0 {
		t.Errorf("%+v", r)
	}
	y.clean()
	var types []EventType
	for _, e := range y.events {
		if !slices.Contains(types, e.Type) {
			types = append(types, e.Type)
		}
	}
	if want := []EventType{RunStarted, PlanReady, TaskStarted, TaskProgress, TaskCompleted, Joined, MergeStarted, MergeDone, PlanCompleted}; !slices.Equal(types, want) {
		t.Error(types)
	}
	// The earlier state can be restored.
	y.git("restore", "--source="+keptRef(r.Run, "before"), "--worktree", ".")
	y.expect(map[string]string{"big.txt": numbered(60), "README.md": "hello\nstaged\nand more\n", "old.txt": "to be removed\n"})
	for _, name := range []string{"run.json", "plan.json", "events.jsonl", "result.json"} {
		if _, err := os.Stat(filepath.Join(RunsDir(y.home), r.Run, name)); err != nil {
			t.Error(err)
		}
	}
}

// A run that was killed before it had events keeps to the plan that it was
// given, and to the names that its git had just locked.
func TestResumeWithoutEvents(t *testing.T) {
	y := newYard(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := y.options(diamond())
	o.Watch = func(Event) { cancel() }
	r, err := Run(ctx, o)
	if err == nil {
		t.Fatalf("%+v", r)
	}
	last, err := FindRun(y.home, "last")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(RunsDir(y.home), last.ID, "events.jsonl"), 0); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{keptRef(last.ID, "base"), "refs/heads/" + resultBranch(last.ID)} {
		lock := filepath.Join(y.dir, ".git", filepath.FromSlash(ref)+".lock")
		if err := errors.Join(os.MkdirAll(filepath.Dir(lock), 0o700), os.WriteFile(lock, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	o = y.options(diamond())
	o.Plan = nil
	if r, err = Resume(t.Context(), last.ID, o); err != nil || !r.Success || r.Done != 5 {
		t.Fatalf("%v: %+v", err, r)
	}
	y.expect(diamondTree())
	y.clean()
}

func TestRunOntoBranch(t *testing.T) {
	y := newYard(t)
	o := y.options(diamond())
	o.Merge = MergeBranch
	before := y.tree()
	r, err := Run(t.Context(), o)
	if err != nil || !r.Success || r.Merge.Branch != "copilot-bridge/"+r.Run+"/result" {
		t.Fatalf("%v: %+v", err, r)
	}
	if y.tree() != before {
		t.Error("the tree was changed")
	}
	y.git("checkout", "-q", r.Merge.Branch)
	y.expect(diamondTree())
}

// In a directory of the repository, and in a repository without a commit.
func TestRunElsewhere(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.write("sub/dir/x.txt", "x\n")
	o := y.options(TaskPlan{Tasks: []SubTask{task("a", "append x.txt more", "write y.txt y")}})
	o.Dir = filepath.Join(y.dir, "sub", "dir")
	r, err := Run(t.Context(), o)
	if err != nil || !r.Success || !slices.Equal(r.Files, []string{"x.txt", "y.txt"}) {
		t.Fatalf("%v: %+v", err, r)
	}
	y.expect(map[string]string{"sub/dir/x.txt": "x\nmore\n", "sub/dir/y.txt": "y\n"})

	fresh := &yard{t: t, dir: t.TempDir(), home: t.TempDir()}
	fresh.git("init", "-q", "-b", "main")
	fresh.write("x.txt", "x\n")
	if r, err := Run(t.Context(), fresh.options(TaskPlan{Tasks: []SubTask{task("a", "append x.txt more")}})); err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	fresh.expect(map[string]string{"x.txt": "x\nmore\n"})

	bare := &yard{t: t, dir: t.TempDir(), home: t.TempDir()}
	bare.write("x.txt", "x\n")
	p := TaskPlan{Tasks: []SubTask{task("a", "append x.txt more"), task("b", "append x.txt again")}, Dependencies: map[string][]string{"b": {"a"}}}
	if r, err := Run(t.Context(), bare.options(p)); err != nil || !r.Success || r.Merge != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	bare.expect(map[string]string{"x.txt": "x\nmore\nagain\n"})
	forced := bare.options(p)
	forced.Isolation = IsolationWorktree
	if _, err := Run(t.Context(), forced); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}
}

func TestFailureSkipsExactlyItsDependents(t *testing.T) {
	y := newYard(t)
	p := diamond()
	p.Tasks[1] = task("left", "write half.txt half", "fail internal")
	r, err := Run(t.Context(), y.options(p))
	if err != nil || r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	states := map[string]State{}
	for _, x := range r.Tasks {
		states[x.ID] = x.State
	}
	for id, want := range map[string]State{"top": Done, "left": Failed, "right": Done, "alone": Done, "bottom": Skipped} {
		if states[id] != want {
			t.Errorf("%s: %s", id, states[id])
		}
	}
	// Finished work is merged; unfinished work is kept on a branch.
	y.expect(map[string]string{"alone.txt": "alone\n", "big.txt": strings.Replace(strings.Replace(numbered(60), "line-00", "TOP", 1), "line-40", "RIGHT", 1)})
	if len(r.Kept) != 1 || y.git("show", r.Kept[0]+":half.txt") != "half" {
		t.Errorf("%v", r.Kept)
	}
	if _, err := os.Stat(filepath.Join(y.dir, "half.txt")); err == nil {
		t.Error("unfinished work was merged")
	}
	// Corrected and resumed, it does only the rest.
	journal := filepath.Join(RunsDir(y.home), r.Run, "events.jsonl")
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	fixed := strings.ReplaceAll(string(data), `do: write half.txt half\ndo: fail internal`, `do: replace big.txt line-20 LEFT\ndo: append new/one.txt left`)
	if err := os.WriteFile(journal, []byte(fixed), 0o600); err != nil {
		t.Fatal(err)
	}
	y.write("README.md", "mine, after the first merge\n")
	if err := os.Remove(y.log); err != nil {
		t.Fatal(err)
	}
	r, err = Resume(t.Context(), r.Run[:12], y.options(TaskPlan{}))
	if err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	want := diamondTree()
	want["README.md"] = "mine, after the first merge\n"
	y.expect(want)
	if log, err := os.ReadFile(y.log); err != nil || string(log) != "left\nbottom\n" {
		t.Errorf("%v: %q", err, log)
	}
	y.clean()
	// A run that is over is not run again.
	if again, err := Resume(t.Context(), "last", y.options(TaskPlan{})); err != nil || again.Run != r.Run || !again.Success {
		t.Errorf("%v: %+v", err, again)
	}
}

func TestRefusesInTheMiddleOfAMerge(t *testing.T) {
	y := newYard(t)
	y.git("checkout", "-q", "-b", "other")
	y.write("README.md", "other\n")
	y.git("commit", "-qam", "other")
	y.git("checkout", "-q", "main")
	y.write("README.md", "main\n")
	y.git("commit", "-qam", "main")
	if err := gitIn(y.dir, "merge", "other"); err == nil {
		t.Fatal("no conflict")
	}
	before := y.tree()
	if _, err := Run(t.Context(), y.options(diamond())); bridge.CodeOf(err) != bridge.CodeConflict || !strings.Contains(err.Error(), "middle of a merge") {
		t.Error(err)
	}
	if y.tree() != before {
		t.Error("something was changed")
	}
}

func TestCanceledRunGoesOn(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	p := diamond()
	p.Tasks[2] = task("right", "hang")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o := y.options(p)
	watch := o.Watch
	o.Watch = func(e Event) {
		watch(e)
		if e.Type == TaskCompleted && e.Task == "left" {
			cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "interrupted"})
		}
	}
	before := y.tree()
	r, err := Run(ctx, o)
	if bridge.CodeOf(err) != bridge.CodeCanceled || r.Success || y.tree() != before {
		t.Fatalf("%v: %+v", err, r)
	}
	if out := y.git("worktree", "list"); strings.Contains(out, "\n") {
		t.Error(out)
	}
	// Another process has it.
	j, _, err := openJournal(t.Context(), y.home, r.Run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(t.Context(), r.Run, o); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Error(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	late := y.options(TaskPlan{})
	late.Timeout = time.Second
	r, err = Resume(t.Context(), r.Run, late)
	if err != nil || r.Success || r.Failed != 1 || r.Tasks[2].Error.Code != bridge.CodeTimeout || r.Tasks[4].State != Skipped {
		t.Fatalf("%v: %+v", err, r)
	}
	y.expect(map[string]string{"alone.txt": "alone\n"}) // what is done is merged
}

// Two runs in one repository do not get in each other's way.
func TestTwoRunsAtOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	var both sync.WaitGroup
	for _, name := range []string{"x", "y"} {
		both.Go(func() {
			p := TaskPlan{}
			for i := range 6 {
				p.Tasks = append(p.Tasks, task(fmt.Sprintf("%s%d", name, i), fmt.Sprintf("write %s/%d.txt %d", name, i, i)))
			}
			o := y.options(p)
			o.Watch = nil
			if r, err := Run(t.Context(), o); err != nil || !r.Success {
				t.Errorf("%v: %+v", err, r)
			}
		})
	}
	both.Wait()
	for _, name := range []string{"x", "y"} {
		for i := range 6 {
			y.expect(map[string]string{fmt.Sprintf("%s/%d.txt", name, i): fmt.Sprintf("%d\n", i)})
		}
	}
	if out := y.git("worktree", "list"); strings.Contains(out, "\n") {
		t.Error(out)
	}
}

// Of runs that began in one second the later one is the last, whatever their
// ids are.
func TestLastRun(t *testing.T) {
	home, began := t.TempDir(), time.Now().UTC()
	for i, id := range []string{"20260101-000000-ffffff", "20260101-000000-000000"} {
		j, err := createJournal(t.Context(), home, Meta{Version: metaVersion, ID: id, Created: began.Add(time.Duration(i) * time.Millisecond)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := FindRun(home, "last"); err != nil || m.ID != "20260101-000000-000000" {
		t.Errorf("%s, %v", m.ID, err)
	}
}

// A run of a plan alone is listed by its first part, without secrets. Its parts
// are not told that as their goal.
func TestPlanNamesItsRun(t *testing.T) {
	y := newYard(t)
	plan := TaskPlan{Tasks: []SubTask{task("a", "write a.txt a"), task("b", "write b.txt b")}}
	plan.Tasks[0].Description = "hush " + plan.Tasks[0].Description
	o := y.options(plan)
	o.Task = ""
	o.Mask = func(s string) string { return strings.ReplaceAll(s, "hush", "[hidden]") }
	r, err := Run(t.Context(), o)
	if err != nil || !r.Success {
		t.Fatalf("%+v %v", r, err)
	}
	m, err := FindRun(y.home, r.Run)
	if want := "[hidden] part a… (and 1 more)"; err != nil || m.Name() != want || m.Task != "" {
		t.Errorf("%q %q %v, want %q", m.Name(), m.Task, err, want)
	}
}

func TestUnknownRuns(t *testing.T) {
	for _, id := range []string{"nonesuch", "", "last", "../x"} {
		if _, err := Resume(t.Context(), id, Options{Home: t.TempDir()}); bridge.CodeOf(err) != bridge.CodeNotFound {
			t.Error(id, err)
		}
	}
}

// No hook of the user's runs, and neither their configuration nor their
// environment has a say in what git does for us.
func TestHooksDoNotRun(t *testing.T) {
	y := newYard(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for _, hook := range []string{"post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change", "pre-merge-commit"} {
		path := filepath.Join(y.dir, ".git", "hooks", hook)
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+hook+" >> "+ran+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	y.git("config", "commit.gpgSign", "true")
	config, err := os.ReadFile(filepath.Join(y.dir, ".git", "config"))
	if err != nil {
		t.Fatal(err)
	}
	o := y.options(diamond())
	o.Environ = append(o.Environ, "GIT_DIR=/nonexistent", "GIT_INDEX_FILE=/nonexistent", "GIT_WORK_TREE=/")
	if r, err := Run(t.Context(), o); err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	if out, err := os.ReadFile(ran); err == nil {
		t.Errorf("hooks ran: %s", out)
	}
	if after, err := os.ReadFile(filepath.Join(y.dir, ".git", "config")); err != nil || string(after) != string(config) {
		t.Errorf("%v: the configuration was changed", err)
	}
}
