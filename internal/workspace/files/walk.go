package files

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files/ignore"
)

// maxDepth bounds the directories that are open at the same time.
const maxDepth = 256

// File is a file that a walk has come to. Open works during the visit only.
type File struct {
	Path string // relative to the root
	name string
	dir  *os.Root
}

// Open opens the file for reading. It fails if it is not, or no longer, a
// regular file, and never waits for one that is a FIFO by now.
func (f File) Open() (*os.File, os.FileInfo, error) { return openRegular(f.dir, f.name) }

func openRegular(dir *os.Root, name string) (*os.File, os.FileInfo, error) {
	file, err := dir.OpenFile(name, openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	if err != nil {
		_ = file.Close() // only read from
		return nil, nil, err
	}
	return file, info, nil
}

var errNotRegular = errors.New("not a regular file")

// Walk visits the regular files of scope below root, with as many goroutines
// as workers says. Links are neither visited nor followed. One worker visits
// in order (see Compare); several visit concurrently and in no order. Walk
// returns the first error of a visit, nil if that was fs.SkipAll, and only
// when no visit runs any more. Directories that cannot be read are passed
// over, except for the root.
func Walk(ctx context.Context, root *os.Root, scope Scope, workers int, visit func(File) error) error {
	filter, err := NewFilter(scope)
	if err != nil {
		return err
	}
	w := &walk{scope: scope, filter: filter, bases: filter.bases(), visit: visit}
	var top *level
	if !scope.NoIgnore {
		var above []string
		above, w.inRepository = Repository(root.Name())
		top = levelsAbove(root.Name(), above)
	}
	start := job{parent: &node{root: root}, name: ".", level: top}
	start.parent.refs.Store(2) // one for the job, one that keeps the caller's root open
	if workers > 1 {
		err = w.concurrently(ctx, start, workers)
	} else {
		err = w.inOrder(ctx, start)
	}
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return fault("list", "the workspace", err)
}

// Compare orders paths as a walk in order visits them: element by element, so
// that what is in a directory stays together.
func Compare(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		if a[i] == '/' {
			return -1
		}
		if b[i] == '/' {
			return 1
		}
		return cmp.Compare(a[i], b[i])
	}
	return cmp.Compare(len(a), len(b))
}

type walk struct {
	scope  Scope
	filter *Filter
	bases  []string
	visit  func(File) error

	inRepository bool
}

// node is an open directory, closed when nobody needs it any more.
type node struct {
	root *os.Root
	refs atomic.Int32
}

func (n *node) release() {
	if n.refs.Add(-1) == 0 {
		_ = n.root.Close() // only read from
	}
}

// job is a directory to read. It owns a reference to its parent.
type job struct {
	parent     *node
	name, path string
	depth      int
	level      *level
}

func (j job) join(name string) string {
	if j.path == "" {
		return name
	}
	return j.path + "/" + name
}

// inOrder goes depth first.
func (w *walk) inOrder(ctx context.Context, j job) error {
	defer j.parent.release()
	return w.read(ctx, j, func(child job) error { return w.inOrder(ctx, child) })
}

// concurrently keeps the directories that wait on a stack, so that few are
// open at a time.
func (w *walk) concurrently(ctx context.Context, start job, workers int) error {
	var (
		mu      sync.Mutex
		changed = sync.NewCond(&mu)
		waiting = []job{start}
		busy    int
		failure error
		wg      sync.WaitGroup
	)
	push := func(j job) {
		mu.Lock()
		waiting = append(waiting, j)
		mu.Unlock()
		changed.Signal()
	}
	for range workers {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for {
				for len(waiting) == 0 && busy > 0 {
					changed.Wait()
				}
				if len(waiting) == 0 {
					return
				}
				j := waiting[len(waiting)-1]
				waiting = waiting[:len(waiting)-1]
				if failure != nil {
					j.parent.release()
					continue
				}
				busy++
				mu.Unlock()
				err := w.read(ctx, j, func(child job) error { push(child); return nil })
				j.parent.release()
				mu.Lock()
				busy--
				failure = cmp.Or(failure, err)
				if busy == 0 {
					changed.Broadcast()
				}
			}
		})
	}
	wg.Wait()
	return failure
}

// read visits the files of a directory and gives its directories to descend.
func (w *walk) read(ctx context.Context, j job, descend func(job) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := list(j.parent.root, j.name)
	if err != nil {
		if j.depth == 0 {
			return err
		}
		return nil // gone or not readable
	}
	here := &node{root: j.parent.root}
	if j.depth == 0 {
		here = j.parent
		here.refs.Add(1)
	} else {
		if here.root, err = j.parent.root.OpenRoot(j.name); err != nil {
			return nil
		}
		here.refs.Store(1)
	}
	defer here.release()
	if !w.scope.NoIgnore {
		j.level = j.level.below(here.root, j.path, entries, w.inRepository)
	}
	for _, e := range entries {
		path := j.join(e.Name())
		if !w.meant(e, path, j.level) {
			continue
		}
		if e.IsDir() {
			if j.depth >= maxDepth {
				continue
			}
			here.refs.Add(1)
			err = descend(job{parent: here, name: e.Name(), path: path, depth: j.depth + 1, level: j.level})
		} else if err = ctx.Err(); err == nil {
			err = w.visit(File{Path: path, name: e.Name(), dir: here.root})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func list(dir *os.Root, name string) ([]os.DirEntry, error) {
	f, err := dir.OpenFile(name, openFlags, 0)
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
