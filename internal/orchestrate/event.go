package orchestrate

import (
	"fmt"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// EventType names an event, in Go, in the journal and with --json.
type EventType string

// The events of a run, roughly in the order in which they come. Those of a
// task carry its id.
const (
	RunStarted    EventType = "run_start"     // Run, Options
	PlanReady     EventType = "plan_ready"    // Plan, Usage, Text: how it came about
	TaskStarted   EventType = "task_start"    // Wave, Attempt
	TaskProgress  EventType = "task_progress" // Text, Usage so far, At
	TaskRetry     EventType = "task_retry"    // Error, Attempt that failed, Delay
	TaskCompleted EventType = "task_complete" // Result, of a task that failed too
	TaskSkipped   EventType = "task_skipped"  // Result, Text: why
	Joined        EventType = "join"          // Join: works that were put together
	Conflicted    EventType = "conflict"      // Conflict
	MergeStarted  EventType = "merge_start"   // Merge
	MergeDone     EventType = "merge_complete"
	Noticed       EventType = "notice"        // Text
	PlanCompleted EventType = "plan_complete" // Outcome
)

// Event is something that happened in a run. Which fields are set depends on
// the type.
type Event struct {
	Type     EventType     `json:"type"`
	Time     time.Time     `json:"time"`
	Run      string        `json:"run"`
	Task     string        `json:"task,omitempty"`
	Wave     int           `json:"wave,omitempty"`
	Attempt  int           `json:"attempt,omitempty"`
	Text     string        `json:"text,omitempty"`
	Usage    *bridge.Usage `json:"usage,omitempty"`
	At       *Place        `json:"at,omitempty"`
	Delay    time.Duration `json:"delay_ns,omitempty"`
	Error    *bridge.Error `json:"error,omitempty"`
	Resumed  bool          `json:"resumed,omitempty"`
	Plan     *TaskPlan     `json:"plan,omitempty"`
	Result   *TaskResult   `json:"result,omitempty"`
	Join     *Join         `json:"join,omitempty"`
	Conflict *Conflict     `json:"conflict,omitempty"`
	Merge    *Merge        `json:"merge,omitempty"`
	Outcome  *Result       `json:"outcome,omitempty"`
}

// State is how far a task has come.
type State string

// The states. A task ends in one of the last four.
const (
	Pending  State = "pending"
	Running  State = "running"
	Done     State = "done"
	Failed   State = "failed"
	Skipped  State = "skipped"  // what it depends on was not done
	Canceled State = "canceled" // the run was ended before it
)

// Ended says whether nothing more will happen to the task in this run.
func (s State) Ended() bool { return s != Pending && s != Running && s != "" }

// Loses says that the task lost the worker that had it, and waits for another.
func (e Event) Loses(worker string) bool {
	return e.Type == TaskProgress && worker != "" && strings.HasPrefix(e.Text, worker+" was lost")
}

// Line is the event in words, or "" for one that needs none.
func (e Event) Line() string {
	who := "part " + e.Task
	switch e.Type {
	case RunStarted:
		return "run " + e.Run + ": planning"
	case PlanReady:
		var ids []string
		for _, t := range e.Plan.Tasks {
			ids = append(ids, t.ID)
		}
		return fmt.Sprintf("plan of %s: %s", text.Plural(len(ids), "part"), strings.Join(ids, ", "))
	case TaskStarted:
		return who + " started"
	case TaskProgress:
		if e.Task == "" {
			who = "planning"
		}
		if e.At != nil && e.At.Worker != "" {
			who += " on " + e.At.Worker
		}
		if e.Text == "" {
			return ""
		}
		return who + ": " + e.Text
	case TaskRetry:
		return who + " is tried again: " + e.Error.Error()
	case TaskCompleted:
		if e.Result.Error != nil {
			return who + " failed: " + e.Result.Error.Error()
		}
		return fmt.Sprintf("%s done: %s", who, text.Plural(len(e.Result.Files), "file"))
	case TaskSkipped:
		return who + " skipped: " + e.Text
	case Conflicted:
		return "conflict in " + strings.Join(e.Conflict.Paths, ", ")
	case MergeStarted:
		return "putting the work together"
	case Noticed, PlanCompleted:
		return e.Text
	case Joined, MergeDone:
	}
	return ""
}
