package orchestrate

import (
	"cmp"
	"context"
	"regexp"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// Remote does attempts at tasks on other machines, and keeps the record of a
// run where another machine can take it over. Joins, conflicts and the merge
// stay in this process.
type Remote interface {
	// Check says why the work in a repository cannot be given to other machines, if
	// so. It is called before Begin, and before a new run is on record.
	Check(ctx context.Context, repo *git.Repository, base string) error
	// Begin is called once, before the first event. past are the events on
	// record here of earlier sittings, those that Append would have got, in
	// their order: a Remote that lacks some of them, or their commits, stores
	// them now. repo holds the commits of m and past, and may be used until End
	// returns.
	Begin(ctx context.Context, m Meta, past []Event, repo *git.Repository) error
	// Append stores an event that a resumption depends on. The run continues
	// when it returns, and ends if it fails. It is called by one goroutine at a
	// time. The commits that the event names are in the repository.
	Append(ctx context.Context, e Event) error
	// Attempt does one attempt at a task. Outcome.Work is a commit that is in the
	// repository: Begin, or one whose only parent is Begin. The first report
	// with Place.Worker says that a machine has begun; until then the attempt
	// waits, and its time-out does not run. Attempt is called concurrently, up
	// to Options.Concurrency times, and returns soon after ctx ends. What it
	// reports after it has returned is not heard.
	Attempt(ctx context.Context, w RemoteWork, report func(Progress)) (Outcome, error)
	// End is called once. If Begin succeeded, it comes after the last attempt; for a run
	// that was already finished it comes without Begin. ended means that the run is
	// complete: its last event is PlanCompleted. Otherwise it can be resumed.
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

// remotely is the Executor that does tasks with a Remote.
type remotely struct {
	remote Remote
	trees  *trees
	mask   func(string) string
	goal   string
	run    string
}

// Execute does one attempt at a task.
func (x *remotely) Execute(ctx context.Context, a Assignment, report func(Progress)) (Outcome, error) {
	begin, err := x.trees.join(ctx, a.Task.ID, a.Needs, report)
	if err != nil {
		return Outcome{}, err
	}
	if a, err = hide(x.mask, a); err != nil { // it leaves this machine
		return Outcome{}, err
	}
	work := RemoteWork{Assignment: a, Run: x.run, Goal: x.goal, Begin: begin, Prefix: x.trees.repo.prefix}
	var mu sync.Mutex // reports come from anywhere
	worker, over := "", false
	out, err := x.remote.Attempt(ctx, work, func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		worker = cmp.Or(p.At.Worker, worker)
		p.At.Tree, p.At.Base = "", "" // nothing of this machine
		report(p)
	})
	mu.Lock()
	out.Worker, over = worker, true
	mu.Unlock()
	if err == nil {
		err = x.trees.accept(ctx, work, &out)
	}
	if err != nil {
		out.Work = ""
	}
	return out, err
}

var objectName = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// accept checks that the work of an attempt elsewhere builds on what it began
// with, and puts it on the task's branch. Two runs of git are all that a task
// costs here: there may be ten thousand.
func (t *trees) accept(ctx context.Context, w RemoteWork, out *Outcome) error {
	out.Files = []string{}
	if out.Work != w.Begin {
		wrong := &bridge.Error{Code: bridge.CodeInternal, Message: "what came back of part " + w.Task.ID + " does not build on what the part began with, so it was refused",
			Remedy: "see who did it; resume the run to have it done again"}
		if !objectName.MatchString(out.Work) {
			return wrong
		}
		// The parents of the commit, then what it changes.
		text, _, err := t.repo.Run(ctx, git.Call{Args: []string{"diff-tree", "--root", "--always", "-r", "-z", "--raw", "--no-renames", "--format=%P", out.Work}})
		if err != nil {
			return err
		}
		parents, text, _ := strings.Cut(text, "\x00")
		if strings.TrimSpace(parents) != w.Begin {
			return wrong
		}
		changes, err := parseDiff(strings.TrimLeft(text, "\n\x00"))
		if err != nil {
			return err
		}
		out.Files = t.repo.names(changes)
	}
	return t.repo.SetRef(ctx, "refs/heads/"+branchOf(w.Run, w.Task.ID), out.Work)
}
