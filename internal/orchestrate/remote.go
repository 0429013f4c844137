package orchestrate

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// Remote does attempts at tasks on other machines, and keeps the record of a
// run where another machine can take it over. Joins, conflicts and the merge
// stay in this process.
type Remote interface {
	// Begin is called once, before the first event. past are the events on
	// record here of earlier sittings, those that Append would have got, in
	// their order: a Remote that lacks some of them, or their commits, stores
	// them now. repo holds the commits of m and past, and may be used until End
	// returns.
	Begin(ctx context.Context, m Meta, past []Event, repo *git.Repository) error
	// Append stores an event that a resumption depends on. The run continues
	// when it returns, and ends if it fails. It is called by one goroutine at a
	// time; reports of progress wait meanwhile, so it must not wait for them.
	// The commits that the event names are in the repository.
	Append(ctx context.Context, e Event) error
	// Attempt does one attempt at a task. Outcome.Work is a commit that is in the
	// repository: Begin, or one whose only parent is Begin. The first report
	// with Place.Worker says that a machine has begun; until then the attempt
	// waits, and its time-out does not run. Attempt is called concurrently, up
	// to Options.Concurrency times. It returns soon after ctx ends.
	Attempt(ctx context.Context, w RemoteWork, report func(Progress)) (Outcome, error)
	// End is called once if Begin succeeded, when no attempt is under way any
	// more. ended says that the run was carried out to its end: its last event is
	// PlanCompleted. Otherwise it was interrupted and is to be resumed.
	End(ctx context.Context, ended bool) error
}

// RemoteWork is one attempt at one task from one commit.
type RemoteWork struct {
	Assignment
	Run    string
	Goal   string // the whole task, for orientation
	Begin  string // the commit to begin with; it is in the repository
	Prefix string // the directory of the repository to work in, with slashes; "" for its root
}
