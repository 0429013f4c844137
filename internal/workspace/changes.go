package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// Bounds of a snapshot. Larger directories have none: it would take too long.
const (
	snapshotFiles = 50_000
	snapshotTime  = 5 * time.Second
)

var errTooManyFiles = errors.New("too many files")

// Snapshot is how the files below a directory look, by their paths relative to
// the workspace: their stamps, not their contents.
type Snapshot map[string]stamp

type stamp struct {
	size     int64
	mode     fs.FileMode
	modified time.Time
}

// Snapshot looks at the files below dir, an absolute path inside the
// workspace, but for those that git ignores. It is nil if there are too many,
// or if they cannot be listed in time.
func (w *Workspace) Snapshot(ctx context.Context, dir string) Snapshot {
	below, err := filepath.Rel(w.dir, dir)
	if err != nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // only read from
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	scope := files.Scope{Hidden: true}
	temporaries(&scope)
	s := Snapshot{}
	err = files.Walk(ctx, root, scope, func(f files.File) error {
		if len(s) == snapshotFiles {
			return errTooManyFiles
		}
		if info, err := f.Stat(); err == nil { // or it has just gone
			s[path.Join(filepath.ToSlash(below), f.Path)] = stamp{info.Size(), info.Mode(), info.ModTime()}
		}
		return nil
	})
	if err != nil || ctx.Err() != nil {
		return nil
	}
	return s
}

// Changed lists the files that are new, different or gone in a later snapshot
// and may be seen. Without one of the two it knows of none.
func (w *Workspace) Changed(before, after Snapshot) []string {
	if before == nil || after == nil {
		return nil
	}
	var changed []string
	for name, now := range after {
		if was, ok := before[name]; !ok || was.size != now.size || was.mode != now.mode || !was.modified.Equal(now.modified) {
			changed = append(changed, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			changed = append(changed, name)
		}
	}
	changed = slices.DeleteFunc(changed, func(name string) bool { return !w.opts.Guard.MayRead(name) })
	slices.Sort(changed)
	return changed
}
