package memory

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"
)

// name is a file of a folder.
type name struct {
	folder int
	path   string // with slashes
}

// state is how a file looked when it was found.
type state struct {
	modified time.Time
	size     int64
}

// found is a file that is there.
type found struct {
	name  name
	state state
}

// walk finds the memory files of all folders. Missing and unreadable ones are
// left out: OpenClaw adds and removes files at any time. Every search walks, so
// directories are looked through by all processors, and each file is looked at
// from its directory.
func walk(ctx context.Context, folders []Folder, roots []*os.Root) ([]found, int, error) {
	w := walker{roots: roots, folders: folders}
	w.more.L = &w.mu
	for i, f := range folders {
		if roots[i] == nil {
			continue
		}
		for _, file := range f.Files {
			// Regular files only. A link may be read by name, if it stays inside;
			// to search it would be to search what it points to twice.
			if info, err := roots[i].Lstat(file); err == nil && info.Mode().IsRegular() {
				w.files = append(w.files, found{name{i, file}, state{info.ModTime(), info.Size()}})
			}
		}
		for _, tree := range f.Trees {
			if info, err := roots[i].Lstat(tree); err == nil && info.IsDir() {
				w.dirs = append(w.dirs, place{name{i, path.Clean(tree)}, 0})
			}
		}
	}
	var walking sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		walking.Go(func() { w.work(ctx) })
	}
	walking.Wait()
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	if more := len(w.files) - maxFiles; more > 0 {
		w.files, w.skipped = w.files[:maxFiles], w.skipped+more
	}
	return w.files, w.skipped, nil
}

// place is a directory to look through.
type place struct {
	name
	depth int
}

type walker struct {
	folders []Folder
	roots   []*os.Root

	mu      sync.Mutex
	more    sync.Cond
	dirs    []place
	busy    int
	files   []found
	skipped int
}

// work looks through directories until none is left and no other goroutine
// could find more.
func (w *walker) work(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.dirs) == 0 && w.busy > 0 {
			w.more.Wait()
		}
		if len(w.dirs) == 0 || ctx.Err() != nil || len(w.files) > 2*maxFiles {
			w.dirs = nil
			w.more.Broadcast()
			return
		}
		d := w.dirs[len(w.dirs)-1]
		w.dirs = w.dirs[:len(w.dirs)-1]
		w.busy++
		w.mu.Unlock()
		files, dirs, ok := w.look(d)
		w.mu.Lock()
		w.busy--
		w.files, w.dirs = append(w.files, files...), append(w.dirs, dirs...)
		if !ok {
			w.skipped++
		}
		w.more.Broadcast()
	}
}

func (w *walker) look(p place) (files []found, dirs []place, ok bool) {
	dir, err := w.roots[p.folder].OpenRoot(p.path)
	if err != nil {
		return nil, nil, false
	}
	defer func() { _ = dir.Close() }()
	d, err := dir.Open(".")
	if err != nil {
		return nil, nil, false
	}
	entries, err := d.ReadDir(-1)
	if closed := d.Close(); err != nil || closed != nil {
		return nil, nil, false
	}
	files = make([]found, 0, len(entries))
	for _, e := range entries {
		at := e.Name()
		if p.path != "." {
			at = p.path + "/" + at
		}
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir() && !w.folders[p.folder].Flat && p.depth < maxDepth:
			dirs = append(dirs, place{name{p.folder, at}, p.depth + 1})
		case e.Type().IsRegular() && IsMarkdown(e.Name()):
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				files = append(files, found{name{p.folder, at}, state{info.ModTime(), info.Size()}})
			}
		}
	}
	return files, dirs, true
}

// IsMarkdown reports whether a file is one that counts as memory.
func IsMarkdown(name string) bool {
	ext := path.Ext(name)
	return strings.EqualFold(ext, ".md") || strings.EqualFold(ext, ".markdown")
}

// open opens the folders that exist. The caller closes them. Files are opened
// below these roots, so no link leads out of a folder.
func open(folders []Folder) ([]*os.Root, error) {
	roots := make([]*os.Root, len(folders))
	for i, f := range folders {
		root, err := os.OpenRoot(f.Dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				closeAll(roots)
				return nil, err
			}
			continue
		}
		roots[i] = root
	}
	return roots, nil
}

func closeAll(roots []*os.Root) {
	for _, r := range roots {
		if r != nil {
			_ = r.Close() // it was only read from
		}
	}
}

// read returns the beginning of a file and whether it is a text.
func read(root *os.Root, file string, buf []byte) (text []byte, ok bool) {
	f, err := root.Open(file)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	size := int(min(info.Size()+1, MaxFileBytes)) // one more, to see the end at once
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	n, err := io.ReadFull(f, buf[:size])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, false
	}
	return buf[:n], isText(buf[:n])
}
