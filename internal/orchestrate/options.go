package orchestrate

import (
	"context"
	"log/slog"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// MergeMode says where finished work goes.
type MergeMode string

// The modes of merging.
const (
	MergeTree   MergeMode = "tree"   // into the user's tree, as uncommitted changes
	MergeBranch MergeMode = "branch" // onto a branch of its own
)

// Isolation says where tasks work.
type Isolation string

// The kinds of isolation.
const (
	IsolationWorktree Isolation = "worktree" // each in a git worktree of its own
	IsolationShared   Isolation = "shared"   // all in the one directory
)

// How many sub-tasks run at a time unless told. With a Remote that is how many
// are handed out. It is more than any fleet takes at once: workers come and go,
// and one that is free finds a task waiting. The order among those that are
// ready is still the longest path first.
const (
	DefaultConcurrency       = 3
	DefaultRemoteConcurrency = 1000
)

// Options are what a run needs. Home, Dir, Task and Open are required.
type Options struct {
	Home string // the bridge's state: journals and worktrees are kept there
	Dir  string // where to work
	Task string
	// Plan is carried out; without one the model is asked.
	Plan *TaskPlan
	// Concurrency is how many tasks run at a time; 0 means 3, or 1,000 with a
	// Remote.
	Concurrency int
	// Eager starts tasks early even where that may delay others.
	Eager bool
	// Isolation, if empty, is worktree in a git repository and else shared.
	Isolation Isolation
	Merge     MergeMode // "" means tree
	// TaskTimeout bounds each attempt at a task, Timeout the whole.
	TaskTimeout, Timeout time.Duration
	MaxRetries           int
	Environ              []string // for git
	Confine              git.Confine
	// MayRead says whether a file, relative to Dir, may be read. Untracked ones
	// that may not are not copied to where tasks work. nil: all may.
	MayRead func(path string) bool
	// Admit is asked before the work is written to the user's files: their
	// names, relative to Dir, and the difference.
	// CodeDenied leaves the work on a branch. nil: all may be written.
	Admit func(ctx context.Context, files []string, diff string) error
	Open  Opener
	// Remote does the tasks on other machines; nil does them here. It needs a git
	// repository. Open is still used, for the plan and for conflicts.
	Remote Remote
	// Mask hides the secrets of a text. Everything that the run keeps, shows or
	// passes on goes through it, the task first of all. Nil changes nothing.
	Mask func(string) string
	// Watch hears of every event, one at a time. It must not block for long.
	Watch  func(Event)
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
		if o.Remote != nil {
			o.Concurrency = DefaultRemoteConcurrency
		}
	}
	if o.Merge == "" {
		o.Merge = MergeTree
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Mask == nil {
		o.Mask = func(s string) string { return s }
	}
	if o.Watch == nil {
		o.Watch = func(Event) {}
	}
	return o
}
