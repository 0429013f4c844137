package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// change is one path that differs between two trees.
type change struct {
	path   string
	mode   string // of the new side; all zeros if it is deleted
	status byte   // A, D, M or T
}

const (
	modeGitlink = "160000"
	modeProgram = "100755"
)

// diff lists what differs between two commits or trees.
func (r *repository) diff(ctx context.Context, from, to string) ([]change, error) {
	out, _, err := r.git.run(ctx, r.at("diff-tree", "-r", "-z", "--raw", "--no-renames", from, to))
	if err != nil {
		return nil, err
	}
	return parseDiff(out)
}

// parseDiff reads ":mode mode object object status\0path\0" entries.
func parseDiff(out string) ([]change, error) {
	fields := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
	var changes []change
	for i := 0; i+1 < len(fields); i += 2 {
		words := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(words) != 5 || words[4] == "" {
			return nil, &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("git diff-tree said %q", fields[i])}
		}
		changes = append(changes, change{path: fields[i+1], mode: words[1], status: words[4][0]})
	}
	return changes, nil
}

// delivery brings a tree into the user's working tree.
type delivery struct {
	repo *repository
	run  string
	// begin is called with what is about to be written, before it is.
	begin func(onto, target string) error
}

// errMoved says that the user's files changed under our hands.
var errMoved = errors.New("files changed while they were being written")

// rounds is how often a delivery begins anew because the user goes on working
// meanwhile.
const rounds = 5

// deliver adds what target has made of base to the user's working tree, beside
// whatever the user has made of it. It changes files only: not the index, no
// commit. If both have changed the same place nothing is written and the
// conflicting paths are returned. After a failure or a crash in the middle,
// deliver with the arguments of the last begin goes on.
func (d *delivery) deliver(ctx context.Context, base, target string) (files, conflicts []string, err error) {
	// Another run of ours in the same tree would look like a user in a hurry.
	unlock, err := d.repo.lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	for range rounds {
		files, conflicts, err = d.round(ctx, base, target)
		if !errors.Is(err, errMoved) {
			return files, conflicts, err
		}
	}
	return nil, nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the files keep changing while the work is merged into them", Cause: err,
		Remedy: "stop what changes them, then go on with `copilot-bridge orchestrate --resume " + d.run + "`"}
}

func (d *delivery) round(ctx context.Context, base, target string) (files, conflicts []string, err error) {
	r := d.repo
	if err := d.tidy(ctx, base, target); err != nil {
		return nil, nil, err
	}
	onto, err := r.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	wanted, err := r.treeOf(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	m, err := r.mergeTrees(ctx, base, onto, wanted)
	if err != nil || len(m.conflicts) > 0 {
		return nil, m.paths(), err
	}
	changes, err := r.diff(ctx, onto, m.tree)
	if err != nil {
		return nil, nil, err
	}
	before := map[string]fs.FileInfo{}
	for _, c := range changes {
		info, err := look(d.path(c.path))
		if err != nil {
			return nil, nil, err
		}
		before[c.path] = info
	}
	// Only now that the files' times are known can a change be told.
	if again, err := r.snapshot(ctx); err != nil || again != onto {
		return nil, nil, errors.Join(err, errMoved)
	}
	ontoCommit, err := r.commit(ctx, onto, "Before the merge", base)
	if err != nil {
		return nil, nil, err
	}
	newTarget, err := r.commit(ctx, m.tree, "The merge", ontoCommit)
	if err != nil {
		return nil, nil, err
	}
	if err := d.begin(ontoCommit, newTarget); err != nil {
		return nil, nil, err
	}
	if err := d.write(ctx, m.tree, changes, before); err != nil {
		return nil, nil, err
	}
	files, err = r.changed(ctx, onto, m.tree)
	return files, nil, err
}

func (d *delivery) path(name string) string {
	return filepath.Join(d.repo.top, filepath.FromSlash(name))
}

// temporary is the name under which a file is written before it is moved into
// place. One a directory is enough, and a later run of ours finds it again.
func (d *delivery) temporary(path string) string {
	return filepath.Join(filepath.Dir(path), ".copilot-bridge-"+d.run+".tmp")
}

// tidy removes what a killed delivery left behind.
func (d *delivery) tidy(ctx context.Context, base, target string) error {
	changes, err := d.repo.diff(ctx, base, target)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if err := os.Remove(d.temporary(d.path(c.path))); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

func gone(err error) bool {
	// A parent that is a file now has no entries either.
	return errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "not a directory")
}
