package orchestrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// trees gives every task a worktree that begins with the work of what the
// task depends on, and puts all works together at the end. Joins are made one
// at a time, so that two tasks with the same dependencies share one, and a
// conflict is resolved once.
type trees struct {
	repo *repository
	run  string
	path string // the directory of the run's worktrees
	base string // the commit on which everything builds
	goal string
	emit func(Event) error
	open Opener // of sessions that resolve conflicts

	mu       sync.Mutex
	salvaged map[string]string // branches with unfinished work, by task

	turn  chan struct{} // held while works are joined
	joins map[string]Join
	lost  map[string]error  // joins that failed for good
	names map[string]string // what a commit is the work of
	usage bridge.Usage      // of resolving conflicts
	last  bool              // conflicts are not tried again
}

func newTrees(repo *repository, run, path, base, goal string, open Opener, emit func(Event) error) *trees {
	return &trees{repo: repo, run: run, path: path, base: base, goal: goal, open: open, emit: emit, turn: make(chan struct{}, 1), salvaged: map[string]string{},
		joins: map[string]Join{}, lost: map[string]error{}, names: map[string]string{base: "the beginning"}}
}

// salvage commits the work of an attempt that failed, for a person to look at.
func (t *trees) salvage(ctx context.Context, w *worktree, task SubTask) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	work, err := w.commit(ctx, "Unfinished: "+text.FirstLine(task.Description, 60)+"\n\nTask "+task.ID+" of run "+t.run+".")
	if err != nil || work == w.base {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.salvaged[task.ID] = w.branch
	return nil
}

// lock waits for the turn to join.
func (t *trees) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns a commit that holds the works of all that a task depends on.
func (t *trees) join(ctx context.Context, task string, needs []TaskResult, report func(Progress)) (string, error) {
	names := map[string]string{}
	var works []string
	for _, n := range needs {
		if _, twice := names[n.Work]; !twice && n.Work != "" && n.Work != t.base {
			works = append(works, n.Work)
		}
		names[n.Work] = n.ID
	}
	if len(works) == 0 {
		return t.base, nil
	}
	if len(works) == 1 {
		return works[0], nil
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	maps.Copy(t.names, names)
	if works, err = t.independent(ctx, works); err != nil {
		return "", err
	}
	head, works, err := t.atOnce(ctx, task, works)
	if err != nil {
		return "", err
	}
	if head == "" {
		head, works = works[0], works[1:]
	}
	for _, w := range works {
		if head, err = t.pair(ctx, task, head, w, report); err != nil {
			return "", err
		}
	}
	return head, nil
}

// independent drops works that are part of others, and keeps the order. They
// are distinct and build on the base. What any of them builds on is a parent of
// something between the base and them; git's own way takes quadratic time.
func (t *trees) independent(ctx context.Context, works []string) ([]string, error) {
	if len(works) < 2 {
		return works, nil
	}
	out, _, err := t.repo.Run(ctx, git.Call{Args: []string{"rev-list", "--parents", "--stdin"}, Input: strings.Join(works, "\n") + "\n^" + t.base + "\n"})
	if err != nil {
		return nil, err
	}
	part := map[string]bool{}
	for line := range strings.Lines(out) {
		for _, parent := range strings.Fields(line)[1:] {
			part[parent] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(works), func(w string) bool { return part[w] }), nil
}

// pair joins two works; the caller has the turn.
func (t *trees) pair(ctx context.Context, task, ours, theirs string, report func(Progress)) (string, error) {
	key := joinKey([]string{ours, theirs})
	if j, ok := t.joins[key]; ok {
		return j.Commit, nil
	}
	if err := t.lost[key]; err != nil {
		return "", err
	}
	m, err := t.repo.mergeCommits(ctx, ours, theirs)
	if err != nil {
		return "", err
	}
	j := Join{Works: slices.Sorted(slices.Values([]string{ours, theirs}))}
	label := t.names[ours] + " and " + t.names[theirs]
	if len(m.conflicts) == 0 {
		j.Commit, err = t.repo.commit(ctx, m.tree, "Put together "+label, ours, theirs)
	} else {
		j.Resolved = true
		j.Commit, err = t.resolve(ctx, task, m, ours, theirs, report)
	}
	if err != nil {
		if bridge.CodeOf(err) == bridge.CodeConflict {
			t.lost[key] = err
		}
		return "", err
	}
	return j.Commit, t.joined(ctx, task, j, label)
}

// joined takes note of a join; the caller has the turn.
func (t *trees) joined(ctx context.Context, task string, j Join, label string) error {
	if err := t.repo.SetRef(ctx, keptRef(t.run, "join-"+j.Commit), j.Commit); err != nil {
		return err
	}
	t.joins[joinKey(j.Works)], t.names[j.Commit] = j, label
	return t.emit(Event{Type: Joined, Task: task, Join: &j})
}

func joinKey(works []string) string { return strings.Join(slices.Sorted(slices.Values(works)), " ") }

// keptRef names a commit of a run that belongs to no branch. It must not look
// like a branch's name, or git would not know which is meant.
func keptRef(run, name string) string { return "refs/copilot-bridge-runs/" + run + "/" + name }

// resolve gives a conflict to a session, once.
func (t *trees) resolve(ctx context.Context, task string, m merged, ours, theirs string, report func(Progress)) (commit string, err error) {
	c := Conflict{Task: task, Paths: m.paths(), Ours: t.names[ours], Theirs: t.names[theirs]}
	report(Progress{Text: "resolving a conflict in " + strings.Join(c.Paths, ", ")})
	both, err := t.repo.commit(ctx, m.tree, "Conflict between "+c.Ours+" and "+c.Theirs, ours, theirs)
	if err != nil {
		return "", err
	}
	w, err := t.repo.addWorktree(ctx, t.path, "conflict", "", both)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.remove(ctx)) }()
	if err := w.writeOtherSides(ctx, m); err != nil {
		return "", err
	}
	out, _, err := converse(ctx, t.open, Opening{Dir: w.path, Task: "a conflict", Run: t.run, Title: t.run + " conflict: " + c.Ours + ", " + c.Theirs},
		resolvePrompt(t.goal, m, c.Ours, c.Theirs), report)
	t.usage = t.usage.Add(out.Usage)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	left, lookErr := w.unresolved(m)
	switch {
	case bridge.Classify(err) != bridge.ClassFatal && !t.last:
		return "", err // the task is tried again, and this with it
	case err != nil:
		c.Message = "the attempt to resolve it failed: " + text.FirstLine(err.Error(), 300)
	case lookErr != nil:
		return "", lookErr
	case len(left) > 0:
		c.Message = "it is still there after an attempt to resolve it"
		c.Paths = left
	default:
		c.Resolved = true
	}
	if err := t.emit(Event{Type: Conflicted, Task: task, Conflict: &c}); err != nil {
		return "", err
	}
	if !c.Resolved {
		return "", &bridge.Error{Code: bridge.CodeConflict,
			Message: fmt.Sprintf("the works of %s and %s do not fit together in %s; %s", c.Ours, c.Theirs, strings.Join(c.Paths, ", "), c.Message),
			Remedy:  "both sides are kept on branches: see `git branch --list 'copilot-bridge/" + t.run + "/*'`"}
	}
	return w.commit(ctx, "Resolve the conflict between "+c.Ours+" and "+c.Theirs, ours, theirs)
}

// integrate puts together all works that fit together, in the order of their
// dependencies, and returns the commit that holds them. What does not fit is
// held back and named.
func (t *trees) integrate(ctx context.Context, g *graph, results []TaskResult) (head string, held []int, err error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	head, t.last = t.base, true
	byWork := map[string]int{}
	var all []string
	for _, i := range g.order {
		if r := results[i]; r.State == Done && r.Work != "" && r.Work != t.base {
			if _, twice := byWork[r.Work]; !twice {
				all, byWork[r.Work], t.names[r.Work] = append(all, r.Work), i, r.ID
			}
		}
	}
	skip := map[int]bool{}
	left, err := t.independent(ctx, all)
	if err == nil {
		var many string
		many, left, err = t.atOnce(ctx, "", left)
		head = cmp.Or(many, head)
	}
	for err == nil && len(left) > 0 {
		next := left[0]
		left = left[1:]
		if head == t.base {
			head = next
			continue
		}
		joined, pairErr := t.pair(ctx, results[byWork[next]].ID, head, next, func(Progress) {})
		if bridge.CodeOf(pairErr) == bridge.CodeConflict {
			// What it builds on may fit.
			skip[byWork[next]] = true
			all = slices.DeleteFunc(all, func(w string) bool { return w == next })
			left, err = t.beside(ctx, all, head)
			continue
		}
		head, err = joined, pairErr
	}
	if err != nil {
		return "", nil, err
	}
	for i := range results {
		if !skip[i] {
			continue
		}
		in, err := t.repo.contains(ctx, head, results[i].Work)
		if err != nil {
			return "", nil, err
		}
		if !in {
			held = append(held, i)
		}
	}
	return head, held, nil
}

// beside lists the works of which none is part of another or of head.
func (t *trees) beside(ctx context.Context, works []string, head string) ([]string, error) {
	works = slices.DeleteFunc(slices.Clone(works), func(w string) bool { return w == head })
	left, err := t.independent(ctx, append(works, head))
	return slices.DeleteFunc(left, func(w string) bool { return w == head }), err
}

// remember takes over a join from the journal.
func (t *trees) remember(j Join) {
	t.joins[joinKey(j.Works)] = j
	t.names[j.Commit] = "works that were put together before"
}
