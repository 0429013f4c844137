package orchestrate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// merged is what came of putting two commits together.
type merged struct {
	tree string
	// conflicts are empty if it is clean; otherwise the tree holds both sides
	// between markers where that is possible.
	conflicts []clash
}

// clash is one path on which two works disagree.
type clash struct {
	path   string
	theirs string // the other side's blob, "" if it has none
	ours   string
}

func (m merged) paths() []string {
	out := []string{}
	for _, c := range m.conflicts {
		out = append(out, c.path)
	}
	return out
}

// mergeCommits merges without touching any working tree.
func (r *repository) mergeCommits(ctx context.Context, ours, theirs string) (merged, error) {
	out, code, err := r.Run(ctx, git.Call{Args: []string{"merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs}, OK: []int{1}})
	if err != nil {
		return merged{}, err
	}
	return parseMerge(out, code == 0)
}

// parseMerge reads the answer of merge-tree: the tree, then for each stage of
// each conflict "mode object stage\tpath", all ended by NUL.
func parseMerge(out string, clean bool) (merged, error) {
	fields := strings.Split(strings.TrimRight(out, "\x00\n"), "\x00")
	m := merged{tree: strings.TrimSpace(fields[0])}
	if m.tree == "" {
		return m, &bridge.Error{Code: bridge.CodeInternal, Message: "git merge-tree gave no tree"}
	}
	if clean {
		return m, nil
	}
	for _, f := range fields[1:] {
		info, path, ok := strings.Cut(f, "\t")
		words := strings.Fields(info)
		if !ok || len(words) != 3 {
			continue
		}
		i := slices.IndexFunc(m.conflicts, func(c clash) bool { return c.path == path })
		if i < 0 {
			i = len(m.conflicts)
			m.conflicts = append(m.conflicts, clash{path: path})
		}
		switch words[2] {
		case "2":
			m.conflicts[i].ours = words[1]
		case "3":
			m.conflicts[i].theirs = words[1]
		}
	}
	if len(m.conflicts) == 0 {
		return m, &bridge.Error{Code: bridge.CodeInternal, Message: "git merge-tree found a conflict and did not say where"}
	}
	return m, nil
}

// mergeTrees merges what two trees have made of a common base.
func (r *repository) mergeTrees(ctx context.Context, base, ours, theirs string) (merged, error) {
	a, err := r.commit(ctx, ours, "ours", base)
	if err != nil {
		return merged{}, err
	}
	b, err := r.commit(ctx, theirs, "theirs", base)
	if err != nil {
		return merged{}, err
	}
	return r.mergeCommits(ctx, a, b)
}

// sideFile is the name under which the other side of a conflict is put beside
// a file that cannot hold markers. It is removed to resolve the conflict.
func sideFile(path string) string { return path + ".OTHER-SIDE" }

// writeOtherSides puts into a worktree, which holds the tree of a conflicting merge, what
// the tree cannot: the other side of files without markers.
func (w *worktree) writeOtherSides(ctx context.Context, m merged) (err error) {
	root, err := os.OpenRoot(w.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, c := range m.conflicts {
		if c.theirs == "" || c.ours == "" {
			continue // one side deleted it; the other is in the tree
		}
		blob, code, err := w.repo.Run(ctx, git.Call{Args: []string{"rev-parse", "--quiet", "--verify", m.tree + ":" + c.path}, OK: []int{1, 128}})
		if err != nil {
			return err
		}
		if code != 0 || strings.TrimSpace(blob) != c.ours {
			continue // it has markers, or was moved aside by git
		}
		data, _, err := w.repo.Run(ctx, git.Call{Args: []string{"cat-file", "blob", c.theirs}})
		if err != nil {
			return err
		}
		if err := root.WriteFile(filepath.FromSlash(sideFile(c.path)), []byte(data), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// unresolved lists the paths of a conflict that still hold markers or have the
// other side beside them.
func (w *worktree) unresolved(m merged) (left []string, err error) {
	root, err := os.OpenRoot(w.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, c := range m.conflicts {
		path := filepath.FromSlash(c.path)
		if _, err := root.Lstat(sideFile(path)); err == nil {
			left = append(left, c.path)
			continue
		}
		info, err := root.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue // resolved by removing or replacing it
		}
		data, err := root.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if hasMarkers(string(data)) {
			left = append(left, c.path)
		}
	}
	return left, nil
}

func hasMarkers(text string) bool {
	open, middle := false, false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "<<<<<<< "):
			open = true
		case open && strings.TrimRight(line, "\r") == "=======":
			middle = true
		case middle && strings.HasPrefix(line, ">>>>>>> "):
			return true
		}
	}
	return false
}
