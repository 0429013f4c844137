package view

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// runEvents is a run of four tasks: one done, one failed, one skipped.
func runEvents(t *testing.T) []orchestrate.Event {
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

func TestRunOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		screen := newVT(t)
		screen.width = 80
		c := testConsole(screen, screen, true, true)
		c.Width = func() int { return 80 }
		b := NewActivity(c, Options{})
		stop := b.Begin("planning")
		events := runEvents(t)
		for _, e := range events[:6] {
			b.RunEvent(e)
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
			b.RunEvent(e)
		}
		stop()
		err := b.RunEnded(orchestrate.Result{Run: "r-1", Done: 1, Duration: 4 * time.Second, Speedup: 1.5, Files: []string{"parse.go"}, Kept: []string{"copilot-bridge/r-1/task-print"}},
			&bridge.Error{Code: bridge.CodeInternal}, 1)
		if err != nil {
			t.Fatal(err)
		}
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

func TestRunInAPipe(t *testing.T) {
	out := &buffer{}
	b := NewActivity(testConsole(out, out, false, false), Options{})
	for _, e := range runEvents(t) {
		b.RunEvent(e)
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

// Where there is no terminal, a line says which worker has begun with a part.
func TestRunOnWorkersInAPipe(t *testing.T) {
	out := &buffer{}
	b := NewActivity(testConsole(out, out, false, false), Options{})
	b.RunEvent(orchestrate.Event{Type: orchestrate.TaskStarted, Task: "a", Wave: 1, Attempt: 1})
	for _, worker := range []string{"", "one", "one", "two"} {
		b.RunEvent(orchestrate.Event{Type: orchestrate.TaskProgress, Task: "a", Text: "x", At: &orchestrate.Place{Worker: worker}})
	}
	b.RunEvent(orchestrate.Event{Type: orchestrate.TaskProgress, Task: "a", Text: "two was lost (it was given up), waiting for another worker"})
	b.RunEvent(orchestrate.Event{Type: orchestrate.TaskProgress, Task: "a", Text: "begun", At: &orchestrate.Place{Worker: "two"}})
	done := orchestrate.TaskResult{ID: "b", State: orchestrate.Done, Outcome: orchestrate.Outcome{Worker: "two"}}
	b.RunEvent(orchestrate.Event{Type: orchestrate.PlanReady, Plan: &orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{{ID: "b", Description: "x", EstimatedComplexity: orchestrate.Small}}}})
	b.RunEvent(orchestrate.Event{Type: orchestrate.TaskCompleted, Task: "b", Result: &done, Resumed: true})
	if got, want := out.String(), "● a started\n● a on one\n● a on two\n· a: two was lost (it was given up), waiting for another worker\n● a on two\n✓ b  0 files  on two\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A plan that does not fit on the screen is counted instead.
func TestRunOfManyTasks(t *testing.T) {
	p := orchestrate.TaskPlan{}
	for i := range 40 {
		p.Tasks = append(p.Tasks, orchestrate.SubTask{ID: string(rune('A' + i)), Description: "x", EstimatedComplexity: orchestrate.Small})
	}
	b := NewActivity(testConsole(&buffer{}, &buffer{}, false, true), Options{})
	b.RunEvent(orchestrate.Event{Type: orchestrate.PlanReady, Plan: &p})
	b.RunEvent(orchestrate.Event{Type: orchestrate.TaskStarted, Task: "C"})
	lines := b.drawing()
	if len(lines) != 2 || !strings.Contains(lines[0].text, "● C") || lines[1].text != "  and 39 pending" {
		t.Errorf("%+v", lines)
	}
}

// A run that was refused before it began took no time.
func TestRunThatDidNotBegin(t *testing.T) {
	out := &buffer{}
	b := NewActivity(testConsole(out, out, false, false), Options{})
	if err := b.RunEnded(orchestrate.Result{}, &bridge.Error{Code: bridge.CodeUnsupported}, 1); err != nil {
		t.Fatal(err)
	}
	if out.String() != "failed\n" {
		t.Errorf("%q", out)
	}
}
