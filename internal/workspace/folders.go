package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// closeWithin is how long a folder that was taken away may need to end.
const closeWithin = 15 * time.Second

// Folder is a directory that is open in an editor, or the one that is served.
type Folder struct {
	Name string `json:"name"` // paths begin with it if there are several folders
	Dir  string `json:"path"`
}

// Folders are the directories that are open: none, one or several, and others
// after Set. With one it is that workspace; with several, paths
// begin with the folder's name, and what concerns them all is put together.
// Each has its own guard. The methods may be called concurrently.
type Folders struct {
	editor Editor
	open   func(ctx context.Context, dir string) (*Workspace, error)

	setting sync.Mutex // one Set at a time
	mu      sync.Mutex
	members []*member
	closed  bool
	ending  sync.WaitGroup // of folders that were taken away
}

// member is a folder in use. It ends when it was taken away and its last user
// is done.
type member struct {
	name string
	dir  string
	ws   *Workspace // nil if it could not be opened
	err  error      // why
	uses int        // guarded by Folders.mu, as is gone
	gone bool
	idle chan struct{} // closed when it is gone and unused
}

// NewFolders returns an empty set. open makes the workspace of a directory; the
// editor may be nil.
func NewFolders(editor Editor, open func(ctx context.Context, dir string) (*Workspace, error)) *Folders {
	return &Folders{editor: editor, open: open}
}

// Set replaces the folders. Those that stay are not touched; the others end
// when they are not in use. A folder that cannot be opened is kept, and says
// why when it is used; the error does too.
func (f *Folders) Set(ctx context.Context, folders []Folder) error {
	f.setting.Lock()
	defer f.setting.Unlock()
	f.mu.Lock()
	old := slices.Clone(f.members)
	f.mu.Unlock()
	var next []*member
	var errs []error
	for i, name := range uniqueNames(folders) {
		dir := folders[i].Dir
		if slices.ContainsFunc(next, func(m *member) bool { return m.dir == dir }) {
			continue
		}
		m := &member{name: name, dir: dir, idle: make(chan struct{})}
		if k := slices.IndexFunc(old, func(m *member) bool { return m.dir == dir && m.err == nil }); k >= 0 {
			m.ws = old[k].ws
		} else if m.ws, m.err = f.open(ctx, dir); m.err != nil {
			errs = append(errs, fmt.Errorf("the folder %s: %w", name, m.err))
		}
		next = append(next, m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		next = nil // all of them go
	}
	f.members = next
	for _, m := range old {
		m.gone = true
		stays := slices.ContainsFunc(next, func(n *member) bool { return n.ws == m.ws })
		if m.uses == 0 {
			close(m.idle)
		}
		if m.ws != nil && !stays {
			f.ending.Go(func() { end(m) })
		}
	}
	return errors.Join(errs...)
}

// end closes a folder when its last user is done.
func end(m *member) {
	t := time.NewTimer(closeWithin)
	defer t.Stop()
	select {
	case <-m.idle:
	case <-t.C:
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = m.ws.Close(ctx) // what it has started ends with this process at the latest
}

// Close ends all of them.
func (f *Folders) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	err := f.Set(ctx, nil)
	f.ending.Wait()
	return err
}

// uniqueNames are the names of folders as paths have them: without slashes, and
// no two alike.
func uniqueNames(folders []Folder) []string {
	taken := map[string]bool{}
	var out []string
	for _, f := range folders {
		name := strings.Map(func(r rune) rune {
			if r == '/' || r == '\\' || r < ' ' {
				return '-'
			}
			return r
		}, f.Name)
		if name == "" || name == "." || name == ".." {
			name = filepath.Base(f.Dir)
		}
		one := name
		for i := 2; taken[strings.ToLower(one)]; i++ {
			one = fmt.Sprintf("%s (%d)", name, i)
		}
		taken[strings.ToLower(one)] = true
		out = append(out, one)
	}
	return out
}

// List returns the folders by their names.
func (f *Folders) List() []Folder {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Folder
	for _, m := range f.members {
		out = append(out, Folder{m.name, m.dir})
	}
	return out
}

// use returns the folders of now; done must be called.
func (f *Folders) use() (all []*member, done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.members) == 0 {
		return nil, nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "no folder is open in the editor", Remedy: "open one there"}
	}
	all = slices.Clone(f.members)
	for _, m := range all {
		m.uses++
	}
	return all, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, m := range all {
			if m.uses--; m.uses == 0 && m.gone {
				close(m.idle)
			}
		}
	}, nil
}

// in finds the folder of a path and the path there. prefix is what to put
// before paths in its results.
func in(all []*member, path string) (m *member, rest, prefix string, err error) {
	if len(all) == 1 {
		return all[0], path, "", all[0].err
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), "./"), "/")
	for _, m := range all {
		if m.name == name {
			return m, rest, name, m.err
		}
	}
	return nil, "", "", &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q begins with no folder of the editor", path),
		Remedy: "Several folders are open: begin with the name of one, " + strings.Join(namesOf(all), ", ") + ", and a slash."}
}

func namesOf(all []*member) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.name)
	}
	return out
}

// Read, and what follows, is what Workspace does.
func (f *Folders) Read(ctx context.Context, path string, o files.ReadOptions) (files.Content, error) {
	return inFolder(f, path, func(ws *Workspace, path, folder string) (files.Content, error) {
		c, err := ws.Read(ctx, path, o)
		c.Path = join(folder, c.Path)
		return c, err
	})
}

// inFolder runs an operation on one path where it belongs.
func inFolder[T any](f *Folders, path string, do func(ws *Workspace, path, folder string) (T, error)) (T, error) {
	var none T
	all, done, err := f.use()
	if err != nil {
		return none, err
	}
	defer done()
	m, rest, prefix, err := in(all, path)
	if err != nil {
		return none, err
	}
	return do(m.ws, rest, prefix)
}

// Symbols lists what a file declares.
func (f *Folders) Symbols(ctx context.Context, path string) ([]lsp.Symbol, error) {
	return inFolder(f, path, func(ws *Workspace, path, _ string) ([]lsp.Symbol, error) { return ws.Symbols(ctx, path) })
}

// Format lays out a file as its language's tools do.
func (f *Folders) Format(ctx context.Context, path string) (Rewritten, error) {
	return f.rewrite(ctx, path, (*Workspace).Format)
}

// Organize sorts and completes the imports of a file.
func (f *Folders) Organize(ctx context.Context, path string) (Rewritten, error) {
	return f.rewrite(ctx, path, (*Workspace).Organize)
}

func (f *Folders) rewrite(ctx context.Context, path string, do func(*Workspace, context.Context, string) (Rewritten, error)) (Rewritten, error) {
	return inFolder(f, path, func(ws *Workspace, path, folder string) (Rewritten, error) {
		r, err := do(ws, ctx, path)
		r.Path = join(folder, r.Path)
		return r, err
	})
}

// inAll runs an operation that concerns all folders: one does it where only one
// is open, and several where there are more.
func inAll[T any](f *Folders, one func(*Workspace) (T, error), several func([]*member) (T, error)) (T, error) {
	var none T
	all, done, err := f.use()
	if err != nil {
		return none, err
	}
	defer done()
	switch {
	case len(all) > 1:
		return several(all)
	case all[0].err != nil:
		return none, all[0].err
	}
	return one(all[0].ws)
}

// ApplyPatch applies a diff, of several folders too, all of it or none.
func (f *Folders) ApplyPatch(ctx context.Context, diff string, o PatchOptions) (Patched, error) {
	return inAll(f, func(w *Workspace) (Patched, error) { return w.ApplyPatch(ctx, diff, o) }, func(all []*member) (Patched, error) {
		parts, err := partsOf(all, diff, o)
		if err != nil {
			return Patched{}, err
		}
		if f.editor == nil {
			return Patched{}, &bridge.Error{Code: bridge.CodeUnsupported, Message: "several folders can be patched in an editor only"}
		}
		return applyParts(ctx, f.editor, parts, diff, o)
	})
}

// Tasks lists the tasks of all folders.
func (f *Folders) Tasks(ctx context.Context) ([]task.Task, error) {
	return inAll(f, func(w *Workspace) ([]task.Task, error) { return w.Tasks(ctx) }, func(all []*member) (out []task.Task, err error) {
		for _, m := range all {
			if m.err != nil {
				err = errors.Join(err, m.err)
				continue
			}
			tasks, failed := m.ws.Tasks(ctx)
			err = errors.Join(err, failed)
			for _, t := range tasks {
				t.Name, t.Dir = join(m.name, t.Name), join(m.name, t.Dir)
				out = append(out, t)
			}
		}
		return out, err
	})
}

// RunTask runs a task in its folder.
func (f *Folders) RunTask(ctx context.Context, name string, o RunOptions) (task.Result, error) {
	return inFolder(f, name, func(ws *Workspace, name, _ string) (task.Result, error) { return ws.RunTask(ctx, name, o) })
}

// Shell runs a line in a folder, which has to be named if there are several.
func (f *Folders) Shell(ctx context.Context, folder, command string, o RunOptions) (task.Result, error) {
	all, done, err := f.use()
	if err != nil {
		return task.Result{}, err
	}
	defer done()
	m := all[0]
	if folder != "" || len(all) > 1 {
		k := slices.IndexFunc(all, func(m *member) bool { return m.name == folder })
		if k < 0 {
			return task.Result{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q is no folder to run it in", folder),
				Remedy: "Name one with folder: " + strings.Join(namesOf(all), ", ") + "."}
		}
		m = all[k]
	}
	if m.err != nil {
		return task.Result{}, m.err
	}
	return m.ws.Shell(ctx, command, o)
}

// Languages tells of the servers that were needed so far.
func (f *Folders) Languages() []lsp.ServerStats {
	all, done, err := f.use()
	if err != nil {
		return nil
	}
	defer done()
	var out []lsp.ServerStats
	for _, m := range all {
		if m.err == nil {
			out = append(out, m.ws.Languages()...)
		}
	}
	return out
}
