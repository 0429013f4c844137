package orchestrate

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func (r Looked) states() map[string]State {
	out := map[string]State{}
	for _, t := range r.Tasks {
		out[t.ID] = t.State
	}
	return out
}

// lookUntil looks at the newest run until it is as it should be.
func lookUntil(t *testing.T, l *Looker, good func(Looked) bool) Looked {
	t.Helper()
	var last []Looked
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		var err error
		if last, err = l.List(5); err != nil {
			t.Fatal(err)
		}
		if len(last) > 0 && good(last[0]) {
			return last[0]
		}
	}
	t.Fatalf("%+v", last)
	return Looked{}
}

// A run is seen while it goes on, with the files that a task has changed so far,
// after it was ended, and when it was finished by a resumption.
func TestLook(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	l := NewLooker(y.home)
	if all, err := l.List(5); err != nil || len(all) > 0 {
		t.Fatal(all, err)
	}
	plan := TaskPlan{Tasks: []SubTask{
		task("first", "replace big.txt line-00 TOP", "write new.txt new"),
		task("second", "replace big.txt line-20 LEFT", "write later.txt x", "hang"),
		task("third", "write third.txt third"),
	}, Dependencies: map[string][]string{"second": {"first"}, "third": {"second"}}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, y.options(plan))
		ended <- err
	}()
	r := lookUntil(t, l, func(r Looked) bool { return len(r.Tasks) == 3 && r.Tasks[1].Tree != "" })
	if r.State != StateRunning || !r.Ended.IsZero() || r.Begun.IsZero() || r.states()["first"] != Done || r.states()["third"] != Pending {
		t.Errorf("%+v", r)
	}
	if s := r.Tasks[1]; s.State != Running || s.Session != "session" || s.Wave != 2 || s.Attempts != 1 || s.Doing != "starting" || s.Started.IsZero() {
		t.Errorf("%+v", s)
	}
	o := Options{Home: y.home, Environ: os.Environ()}
	diff := func(r Looked, task string, want ...string) {
		t.Helper()
		var d TaskDiff
		for deadline := time.Now().Add(30 * time.Second); ; {
			var err error
			if d, err = r.Diff(t.Context(), task, o); err != nil {
				t.Fatal(err)
			}
			if slices.Equal(d.Files, want) || r.State != StateRunning || time.Now().After(deadline) {
				break
			}
		}
		if !slices.Equal(d.Files, want) {
			t.Errorf("%s: %v", task, d.Files)
		}
		for _, f := range want {
			if !strings.Contains(d.Diff, "+++ b/"+f) {
				t.Errorf("%s: %s is not in\n%s", task, f, d.Diff)
			}
		}
		if task == "second" && (!strings.Contains(d.Diff, "-line-20\n+LEFT\n") || strings.Contains(d.Diff, "+TOP")) {
			t.Errorf("not what the task has changed:\n%s", d.Diff)
		}
	}
	diff(r, "first", "big.txt", "new.txt")
	diff(r, "second", "big.txt", "later.txt")
	diff(r, "third")
	if _, err := r.Diff(t.Context(), "none", o); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}

	cancel()
	<-ended
	r = lookUntil(t, l, func(r Looked) bool { return r.State != StateRunning })
	if r.State != StateInterrupted || r.Ended.IsZero() || r.states()["first"] != Done || r.states()["second"] == Running {
		t.Errorf("%+v", r)
	}

	// Somebody mends the plan's second task, whose prompt is in the plan.
	journal := filepath.Join(RunsDir(y.home), r.ID, "events.jsonl")
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, []byte(strings.ReplaceAll(string(data), `\ndo: hang`, `\ndo: remove old.txt`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(t.Context(), r.ID, y.options(TaskPlan{})); err != nil {
		t.Fatal(err)
	}
	for _, look := range []*Looker{l, NewLooker(y.home)} {
		r, err := look.Look(r.ID)
		if err != nil || r.State != StateFinished || r.Outcome == nil || !r.Outcome.Success || r.Ended.IsZero() {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, task := range r.Tasks {
			if task.State != Done || task.Session != "session" || task.Summary == "" || task.Ended.IsZero() {
				t.Errorf("%+v", task)
			}
		}
		diff(r, "third", "third.txt")
	}
	if _, err := l.Look("../" + r.ID); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}
	if _, err := Discard(t.Context(), r.ID, o); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Look(r.ID); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}
	if all, err := l.List(5); err != nil || len(all) > 0 {
		t.Error(all, err)
	}
}

// Looking again at runs that have not changed reads none of their journals.
func TestLookingAgainIsCheap(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	l := NewLooker(y.home)
	if _, err := Run(t.Context(), y.options(diamond())); err != nil {
		t.Fatal(err)
	}
	all, err := l.List(5)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	journal := filepath.Join(RunsDir(y.home), all[0].ID, "events.jsonl")
	info, err := os.Stat(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, make([]byte, info.Size()), 0o600); err != nil { // of the same size
		t.Fatal(err)
	}
	again, err := l.List(5)
	if err != nil || len(again) != 1 || again[0].State != StateFinished || len(again[0].Tasks) != 5 {
		t.Error(again, err)
	}
}
