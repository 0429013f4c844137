package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// change is one path that differs between two trees.
type change struct {
	path   string
	mode   string // of the new side; all zeros if it is deleted
	object string // of the new side
	status byte   // A, D, M or T
}

const (
	modeGitlink = "160000"
	modeProgram = "100755"
	modeLink    = "120000"
)

// patch is the difference of two commits or trees as text.
func (r *repository) patch(ctx context.Context, from, to string) (string, error) {
	out, _, err := r.Run(ctx, git.Call{Args: []string{"diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", from, to}})
	return out, err
}

// diff lists what differs between two commits or trees.
func (r *repository) diff(ctx context.Context, from, to string) ([]change, error) {
	out, _, err := r.Run(ctx, git.Call{Args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", from, to}})
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
		changes = append(changes, change{path: fields[i+1], mode: words[1], object: words[3], status: words[4][0]})
	}
	return changes, nil
}

// delivery brings a tree into the user's working tree. It reaches that tree
// through root only, and never through a link in it.
type delivery struct {
	repo *repository
	run  string
	// begin is called before the first file is written.
	begin func(onto, target string) error
	// admit is asked whether files may be written, or nil.
	admit func(ctx context.Context, files []string, diff string) error
	root  *os.Root
}

// errMoved says that the user's files changed under our hands.
var errMoved = errors.New("files changed while they were being written")

// rounds is how often a delivery begins anew because the user is still working
// meanwhile.
const rounds = 5

// unfit is work that is not written to the user's files.
type unfit struct {
	paths []string
	why   string
}

// deliver adds what target has made of base to the user's working tree, beside
// whatever the user has made of it. It changes files only: not the index, no
// commit. If both have changed the same place, or the work changes what it may
// not, nothing is written and the paths are returned. After a failure or a
// crash in the middle, deliver with the arguments of the last begin continues.
func (d *delivery) deliver(ctx context.Context, base, target string) (files []string, held *unfit, err error) {
	// Another run of ours in the same tree would look like a user in a hurry.
	unlock, err := d.repo.lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if d.root, err = os.OpenRoot(d.repo.Top); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, d.root.Close()) }()
	for range rounds {
		files, held, err = d.round(ctx, base, target)
		if !errors.Is(err, errMoved) {
			return files, held, err
		}
	}
	return nil, nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the files keep changing while the work is merged into them", Cause: err,
		Remedy: "stop what changes them, then go on with `copilot-bridge orchestrate --resume " + d.run + "`"}
}

// landing is a set of changes that is ready to be written.
type landing struct {
	changes []change
	stage   string // the new contents
	before  map[string]fs.FileInfo
}

func (d *delivery) round(ctx context.Context, base, target string) (files []string, held *unfit, err error) {
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
	if err != nil {
		return nil, nil, err
	}
	if len(m.conflicts) > 0 {
		return nil, &unfit{m.paths(), "you have changed the same places meanwhile"}, nil
	}
	l := landing{before: map[string]fs.FileInfo{}}
	if l.changes, err = r.diff(ctx, onto, m.tree); err != nil {
		return nil, nil, err
	}
	if l.stage, err = os.MkdirTemp(r.scratch, "stage-*"); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, removeAll(l.stage)) }()
	if held, err = d.examine(ctx, l, onto, m.tree); err != nil || held != nil {
		return nil, held, err
	}
	// The files' times are known only now, so an edit before this point is
	// found here and a later one by its time.
	again, err := r.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	edits, err := r.diff(ctx, onto, again)
	if err != nil {
		return nil, nil, err
	}
	if overlap(l.changes, edits) {
		return nil, nil, errMoved
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
	if err := d.write(l); err != nil {
		return nil, nil, err
	}
	files, err = r.changed(ctx, onto, m.tree)
	return files, nil, err
}

// overlap says whether two sets of changes touch the same path, or one a path
// below another's. Builds and editors may change other files meanwhile.
func overlap(a, b []change) bool {
	return reaches(a, b) || reaches(b, a)
}

// reaches says whether a path of b is one of a's, or below one.
func reaches(a, b []change) bool {
	paths := map[string]bool{}
	for _, c := range a {
		paths[c.path] = true
	}
	return slices.ContainsFunc(b, func(c change) bool {
		for at := c.path; at != "."; at = path.Dir(at) {
			if paths[at] {
				return true
			}
		}
		return false
	})
}

// examine makes the new contents ready and finds all that speaks against
// writing them, before anything is written.
func (d *delivery) examine(ctx context.Context, l landing, onto, tree string) (*unfit, error) {
	if held := holdBack(l.changes, "it changes files that only you may change", func(c change) bool { return git.Reserved(c.path) }); held != nil {
		return held, nil
	}
	if err := d.checkOut(ctx, tree, l.changes, l.stage); err != nil {
		return nil, err
	}
	if held := holdBack(l.changes, "it makes links that lead out of your working tree", l.leadsOut); held != nil {
		return held, nil
	}
	deleted := map[string]bool{}
	for _, c := range l.changes {
		deleted[c.path] = c.status == 'D'
	}
	for _, c := range l.changes {
		if err := d.survey(l, c, deleted); err != nil {
			return nil, err
		}
	}
	if d.admit == nil || len(l.changes) == 0 {
		return nil, nil
	}
	return d.askAdmission(ctx, onto, tree)
}

// askAdmission asks whether the files may be written, and shows the whole difference.
func (d *delivery) askAdmission(ctx context.Context, onto, tree string) (*unfit, error) {
	files, err := d.repo.changed(ctx, onto, tree)
	if err != nil {
		return nil, err
	}
	diff, err := d.repo.patch(ctx, onto, tree)
	if err != nil {
		return nil, err
	}
	if err := d.admit(ctx, files, diff); err != nil {
		if bridge.CodeOf(err) != bridge.CodeDenied {
			return nil, err
		}
		return &unfit{files, err.Error()}, nil
	}
	return nil, nil
}

// holdBack finds changes that are not written, whatever the user's policy says.
func holdBack(changes []change, why string, forbidden func(change) bool) *unfit {
	var found []string
	for _, c := range changes {
		if forbidden(c) {
			found = append(found, c.path)
		}
	}
	if found == nil {
		return nil
	}
	return &unfit{found, why}
}

// leadsOut says whether a change makes a link that leads out of the working
// tree, or to reserved files.
func (l landing) leadsOut(c change) bool {
	if c.status == 'D' || c.mode != modeLink {
		return false
	}
	target, err := os.Readlink(l.file(c))
	return err == nil && git.LeadsOut(c.path, target)
}

// tidy removes what a killed delivery left behind.
func (d *delivery) tidy(ctx context.Context, base, target string) error {
	changes, err := d.repo.diff(ctx, base, target)
	if err != nil {
		return err
	}
	for _, c := range changes {
		dir, _, err := d.parent(c.path, false)
		if err != nil {
			if isAbsent(err) {
				continue
			}
			return err
		}
		if err := errors.Join(removeFile(dir, d.temporary()), dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

// removeFile removes a file that need not exist.
func removeFile(dir *os.Root, name string) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
