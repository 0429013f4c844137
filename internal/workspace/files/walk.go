package files

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files/ignore"
)

// maxDepth bounds the directories that are open at the same time.
const maxDepth = 256

// maxPath is what systems allow of a path, in bytes.
const maxPath = 4096

// File is a file that a walk has come to. Open works during the visit only.
type File struct {
	Path string // relative to the root
	name string
	dir  *os.Root
}

// Open opens the file for reading. It fails if it is not, or no longer, a
// regular file, and never waits for one that is a FIFO by now.
func (f File) Open() (*os.File, os.FileInfo, error) { return openRegular(f.dir, f.name) }

// Stat looks at the file without opening it.
func (f File) Stat() (os.FileInfo, error) { return f.dir.Lstat(f.name) }

func openRegular(dir *os.Root, name string) (*os.File, os.FileInfo, error) {
	file, err := dir.OpenFile(name, openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		_ = file.Close() // only read from
		return nil, nil, err
	}
	return file, info, nil
}

// Walk visits the regular files of scope below root, in the order of Compare.
// Links are neither visited nor followed. It returns the error of a visit, nil
// if that was fs.SkipAll. Directories that cannot be read are passed over,
// except for the root.
func Walk(ctx context.Context, root *os.Root, scope Scope, visit func(File) error) error {
	_, err := walkAll(ctx, root, scope, nil, visit)
	return err
}

// Meant returns those of some paths that Walk would visit, in the order of
// Compare. It looks into no other directories than those on the way.
func Meant(ctx context.Context, root *os.Root, scope Scope, paths []string) ([]string, error) {
	keep := scope.Keep
	scope.Keep = func(p string) bool { return slices.Contains(paths, p) && (keep == nil || keep(p)) }
	bases := []string{}
	for _, p := range paths {
		if dir := path.Dir(p); dir != "." {
			bases = append(bases, dir)
		}
	}
	meant := []string{}
	_, err := walkAll(ctx, root, scope, bases, func(f File) error { meant = append(meant, f.Path); return nil })
	return meant, err
}

// walkAll is Walk, and says whether it passed over something: a directory that
// cannot be read or is too deep, or a path that is too long. bases, if not nil,
// are the directories to look into instead of those that the patterns name.
func walkAll(ctx context.Context, root *os.Root, scope Scope, bases []string, visit func(File) error) (missed bool, err error) {
	filter, err := NewFilter(scope)
	if err != nil {
		return false, err
	}
	if bases == nil {
		bases = filter.bases()
	}
	w := &walk{ctx: ctx, scope: scope, filter: filter, bases: bases, visit: visit, longest: maxPath - len(root.Name())}
	var top *level
	if !scope.NoIgnore {
		var above []string
		above, w.inRepository = Repository(root.Name())
		top = levelsAbove(root.Name(), above)
	}
	if err = w.directory(root, "", 0, top); errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return w.missed, fault("list", "the workspace", err)
}

type walk struct {
	ctx    context.Context
	scope  Scope
	filter *Filter
	bases  []string
	visit  func(File) error

	inRepository bool
	longest      int // bytes that a path may have
	missed       bool
}

// directory visits the files of a directory, and of those in it.
func (w *walk) directory(dir *os.Root, at string, depth int, l *level) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := list(dir)
	if err != nil && depth == 0 {
		return err
	} else if err != nil {
		w.miss(err)
		return nil
	}
	if !w.scope.NoIgnore {
		l = l.below(dir, at, entries, w.inRepository)
	}
	for _, e := range entries {
		name := path.Join(at, e.Name())
		switch {
		case len(name) >= w.longest:
			w.missed = true // its name is too long to open it by
			continue
		case !w.meant(e, name, l):
			continue
		case e.IsDir():
			err = w.enter(dir, e.Name(), name, depth+1, l)
		default:
			if err = w.ctx.Err(); err == nil {
				err = w.visit(File{Path: name, name: e.Name(), dir: dir})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter descends into a directory of dir.
func (w *walk) enter(dir *os.Root, name, at string, depth int, l *level) error {
	if depth > maxDepth {
		w.missed = true
		return nil
	}
	below, err := dir.OpenRoot(name)
	if err != nil {
		w.miss(err)
		return nil
	}
	defer func() { _ = below.Close() }() // only read from
	return w.directory(below, at, depth, l)
}

// miss notes a directory that cannot be read, unless it has just gone.
func (w *walk) miss(err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		w.missed = true
	}
}

func list(dir *os.Root) ([]os.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

// meant decides on an entry. The cheap questions come first.
func (w *walk) meant(e os.DirEntry, path string, l *level) bool {
	name, dir := e.Name(), e.IsDir()
	switch {
	case name == ".git":
		return false
	case !dir && !e.Type().IsRegular():
		return false
	case dir && (!w.leadsToBase(path) || w.filter.Excluded(path)):
		return false
	}
	switch l.verdict(path, dir) {
	case ignore.Ignored:
		return false
	case ignore.Silent:
		if hidden(name) && !w.scope.Hidden {
			return false
		}
	case ignore.Kept:
	}
	return dir || w.filter.fileBelow(path)
}

// leadsToBase reports whether the directory at path lies over or under one
// that the patterns begin with.
func (w *walk) leadsToBase(path string) bool {
	return w.bases == nil || slices.ContainsFunc(w.bases, func(base string) bool {
		return within(path, base) || within(base, path)
	})
}

func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/')
}
