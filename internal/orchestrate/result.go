package orchestrate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// TaskResult is how a task ended.
type TaskResult struct {
	ID       string        `json:"id"`
	State    State         `json:"state"`
	Success  bool          `json:"success"`
	Wave     int           `json:"wave"`
	Attempts int           `json:"attempts"`
	Started  time.Time     `json:"started,omitzero"`
	Duration time.Duration `json:"duration_ns"`
	Error    *bridge.Error `json:"error,omitempty"`
	// Reason says why the task was skipped.
	Reason string `json:"reason,omitempty"`
	// HeldBack says that the work was done and is kept, on Branch, but could
	// not be put together with the rest.
	HeldBack bool   `json:"held_back,omitempty"`
	Branch   string `json:"branch,omitempty"`
	Outcome
}

// Join is the works of several tasks put together.
type Join struct {
	Works  []string `json:"works"` // sorted
	Commit string   `json:"commit"`
	// Resolved says that it took a sub-task to resolve a conflict.
	Resolved bool `json:"resolved,omitempty"`
}

// Conflict is two works that do not fit together.
type Conflict struct {
	Task  string   `json:"task,omitempty"` // whose beginning or end it stood in the way of
	Paths []string `json:"paths"`
	// Ours and Theirs are the two sides; both are kept.
	Ours     string `json:"ours"`
	Theirs   string `json:"theirs"`
	Resolved bool   `json:"resolved"`
	Message  string `json:"message,omitempty"`
}

// Merge is the work of a run brought to the user.
type Merge struct {
	Mode MergeMode `json:"mode"`
	// Base is the state to which Target adds; Onto, the user's tree that was
	// found.
	Base   string   `json:"base,omitempty"`
	Onto   string   `json:"onto,omitempty"`
	Target string   `json:"target,omitempty"`
	Branch string   `json:"branch,omitempty"`
	Files  []string `json:"files"`
	// Whole is the work itself, which the next merge of the run builds on.
	Whole string `json:"whole,omitempty"`
}

// Result is what a run came to.
type Result struct {
	Run     string       `json:"run"`
	Success bool         `json:"success"` // everything was done and merged
	Tasks   []TaskResult `json:"tasks"`   // in the order of the plan
	Summary string       `json:"summary"`
	Done    int          `json:"done"`
	Failed  int          `json:"failed"`
	Skipped int          `json:"skipped"` // or canceled
	Files   []string     `json:"files"`   // changed in the user's tree or on the branch
	Usage   bridge.Usage `json:"usage"`   // the plan's and the conflicts' too
	// Duration is from the first start to the last end of a task, pauses
	// between a run and its resumption left out; Sequential is what the tasks
	// would have taken one after another.
	Duration   time.Duration `json:"duration_ns"`
	Sequential time.Duration `json:"sequential_ns"`
	Speedup    float64       `json:"speedup"`
	// CriticalPath is the chain of tasks that took longest.
	CriticalPath     []string      `json:"critical_path"`
	CriticalDuration time.Duration `json:"critical_ns"`
	Conflicts        []Conflict    `json:"conflicts,omitempty"`
	Merge            *Merge        `json:"merge,omitempty"`
	// Kept are branches that hold work which is not in the merge.
	Kept []string `json:"kept_branches,omitempty"`
	// Answers says who answered; the caller sets it.
	Answers bridge.Answers `json:"answers,omitzero"`
}

// summarize fills in all that follows from the tasks.
func (r *Result) summarize(g *graph, busy time.Duration) {
	r.Done, r.Failed, r.Skipped, r.Sequential = 0, 0, 0, 0
	held := 0
	for _, t := range r.Tasks {
		switch t.State {
		case Done:
			r.Done++
		case Failed:
			r.Failed++
		case Skipped, Canceled, Pending, Running:
			r.Skipped++
		}
		if t.HeldBack {
			held++
		}
		r.Sequential += t.Duration
		r.Usage = r.Usage.Add(t.Usage)
	}
	r.Duration = busy
	if busy > 0 {
		r.Speedup = float64(r.Sequential) / float64(busy)
	}
	path, total := g.criticalPath(func(i int) int64 { return int64(r.Tasks[i].Duration) })
	r.CriticalPath, r.CriticalDuration = g.names(path), time.Duration(total)
	r.Success = r.Done == len(r.Tasks) && held == 0 && !slices.ContainsFunc(r.Conflicts, func(c Conflict) bool { return !c.Resolved })
	r.Summary = r.words(held)
}

func (r *Result) words(held int) string {
	parts := []string{fmt.Sprintf("%d of %d tasks done", r.Done, len(r.Tasks))}
	for _, p := range []struct {
		n    int
		what string
	}{{r.Failed, "failed"}, {r.Skipped, "skipped"}, {held, "held back because of conflicts"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	out := strings.Join(parts, ", ")
	for _, t := range r.Tasks {
		switch {
		case t.State == Failed:
			out += fmt.Sprintf("; %s: %s", t.ID, text.FirstLine(t.Error.Error(), 200))
		case t.HeldBack:
			out += fmt.Sprintf("; the work of %s is on the branch %s", t.ID, t.Branch)
		}
	}
	return out
}
