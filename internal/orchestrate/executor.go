package orchestrate

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Executor does single tasks. It is all that the scheduler knows of where and
// how a task is done, so that tasks may one day run on other machines. Execute
// is called concurrently, never more often at a time than the scheduler's
// limit, and returns soon after ctx ends. An error is classified by
// bridge.Classify: some are tried again.
type Executor interface {
	Execute(ctx context.Context, a Assignment, report func(Progress)) (Outcome, error)
}

// Assignment is one attempt at one task.
type Assignment struct {
	Task    SubTask
	Attempt int // 1 for the first
	// Needs are the results of what the task depends on, all of them done, in
	// the order of the plan.
	Needs []TaskResult
}

// Progress is a sign of life.
type Progress struct {
	Text  string       // the present step
	Usage bridge.Usage // so far
	At    Place        // where the attempt is at work, when that is new
}

// Place is where an attempt at a task is at work.
type Place struct {
	Session string `json:"session,omitempty"`
	// Worker names the machine, "" for this one. Session is on that machine.
	Worker string `json:"worker,omitempty"`
	// Tree is its worktree and Base the commit with which that began, if it has
	// one on this machine.
	Tree string `json:"tree,omitempty"`
	Base string `json:"base,omitempty"`
}

// Outcome is what a task that was done came to.
type Outcome struct {
	Summary string       `json:"summary"`
	Files   []string     `json:"files"` // changed, relative to the workspace
	Usage   bridge.Usage `json:"usage"`
	Tools   int          `json:"tools"`
	Denied  int          `json:"denied,omitempty"` // tool calls that the guard refused
	Session string       `json:"session,omitempty"`
	Worker  string       `json:"worker,omitempty"` // as in Place
	// Work is the commit of the result, by which results are put together.
	Work string `json:"work,omitempty"`
}
