package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

const (
	fewWorks    = 8   // so many are put together in pairs
	mostParents = 400 // of a commit: command lines are bounded
)

// atOnce puts together those of many works that do not touch each other: a pair
// takes several runs of git, and there may be thousands. It returns the commit
// that holds them, "" for none, and the works that are left for pairs. The
// caller has the turn.
func (t *trees) atOnce(ctx context.Context, task string, works []string) (head string, rest []string, err error) {
	if len(works) <= fewWorks {
		return "", works, nil
	}
	changes, err := t.repo.diffs(ctx, t.base, works)
	if err != nil {
		return "", nil, err
	}
	apart, rest := separate(works, changes)
	if len(apart) <= fewWorks {
		return "", works, nil
	}
	index := filepath.Join(t.repo.scratch, "index-many")
	defer func() { err = errors.Join(err, git.RemoveIndex(index)) }()
	if _, _, err := t.repo.Run(ctx, git.Call{Index: index, Args: []string{"read-tree", t.base}}); err != nil {
		return "", nil, err
	}
	for some := range slices.Chunk(apart, mostParents) {
		var entries strings.Builder
		for _, w := range some {
			for _, c := range changes[w] {
				fmt.Fprintf(&entries, "%s %s\t%s\x00", c.mode, c.object, c.path)
			}
		}
		if _, _, err := t.repo.Run(ctx, git.Call{Index: index, Args: []string{"update-index", "-z", "--index-info"}, Input: entries.String()}); err != nil {
			return "", nil, err
		}
		if head != "" {
			some = append([]string{head}, some...)
		}
		if head, err = t.several(ctx, task, some, index); err != nil {
			return "", nil, err
		}
	}
	return head, rest, nil
}

// several makes the join of works whose files an index holds.
func (t *trees) several(ctx context.Context, task string, works []string, index string) (string, error) {
	key := joinKey(works)
	if j, ok := t.joins[key]; ok {
		return j.Commit, nil
	}
	tree, err := t.repo.Line(ctx, git.Call{Index: index, Args: []string{"write-tree"}})
	if err != nil {
		return "", err
	}
	label := fmt.Sprintf("%d parts", len(works))
	commit, err := t.repo.commit(ctx, tree, "Put together "+label, works...)
	if err != nil {
		return "", err
	}
	return commit, t.joined(ctx, task, Join{Works: slices.Sorted(slices.Values(works)), Commit: commit}, label)
}

// separate picks works that do not touch each other: of a file that several
// change, as those do that build on the same work, they have the version that
// most have. None deletes a file: that may be a part of a rename, which git
// looks for when it merges.
func separate(works []string, changes map[string][]change) (apart, rest []string) {
	most, votes := map[string]change{}, map[change]int{}
	for _, w := range works {
		for _, c := range changes[w] {
			if votes[c]++; votes[c] > votes[most[c.path]] {
				most[c.path] = c
			}
		}
	}
	files, dirs := map[string]bool{}, map[string]bool{}
	meets := func(c change) bool {
		if c.status == 'D' || c != most[c.path] || dirs[c.path] {
			return true
		}
		for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
			if files[dir] {
				return true
			}
		}
		return false
	}
	for _, w := range works {
		if slices.ContainsFunc(changes[w], meets) {
			rest = append(rest, w)
			continue
		}
		apart = append(apart, w)
		for _, c := range changes[w] {
			files[c.path] = true
			for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
				dirs[dir] = true
			}
		}
	}
	return apart, rest
}

// diffs lists what each of several commits changes of another.
func (r *repository) diffs(ctx context.Context, from string, commits []string) (map[string][]change, error) {
	var in strings.Builder
	for _, c := range commits {
		in.WriteString(c + " " + from + "\n") // as if that were its only parent
	}
	out, _, err := r.Run(ctx, git.Call{Args: []string{"diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames"}, Input: in.String()})
	if err != nil {
		return nil, err
	}
	all := map[string][]change{}
	for out != "" {
		commit, rest, _ := strings.Cut(out, "\x00")
		end := nextCommit(rest)
		if all[commit], err = parseDiff(rest[:end]); err != nil {
			return nil, err
		}
		out = rest[end:]
	}
	return all, nil
}

// nextCommit is where the entries of a commit end, each of two fields and the
// first with a colon.
func nextCommit(text string) int {
	at := 0
	for strings.HasPrefix(text[at:], ":") {
		for range 2 {
			end := strings.IndexByte(text[at:], 0)
			if end < 0 {
				return len(text)
			}
			at += end + 1
		}
	}
	return at
}
