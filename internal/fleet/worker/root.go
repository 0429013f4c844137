package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
)

// root is the worker's directory. It has mirrors/, one for each repository, and
// trees/ with their worktrees, and results/ on their way. Whoever holds its lock
// owns all of it.
type root struct {
	dir     string
	mirrors *bundle.Mirrors
	unlock  func() error

	mu        sync.Mutex
	receiving map[string]chan struct{} // by repository; holds a value while somebody fetches into the mirror
}

// holder says who has the lock.
type holder struct {
	PID    int       `json:"pid"`
	Worker string    `json:"worker"`
	Since  time.Time `json:"since"`
}

// openRoot takes the directory, and removes what a killed worker has left in it.
func openRoot(dir, worker string, environ []string) (*root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, ok, err := durable.TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, inUse(dir)
	}
	r := &root{dir: dir, unlock: unlock, receiving: map[string]chan struct{}{}}
	data, err := json.Marshal(holder{os.Getpid(), worker, time.Now()})
	if err == nil {
		err = durable.WriteFile(r.holderFile(), data, 0o600)
	}
	if err == nil {
		err = r.sweep()
	}
	if err == nil {
		r.mirrors = bundle.NewMirrors(bundle.MirrorsOptions{Root: filepath.Join(dir, "mirrors"), Scratch: filepath.Join(dir, "git"), Environ: environ})
		err = r.mirrors.Prune(bundle.MirrorsUnused, bundle.MirrorsBytes)
	}
	if err != nil {
		return nil, closeRoot(r, err)
	}
	return r, nil
}

func (r *root) holderFile() string { return filepath.Join(r.dir, "worker.json") }

func inUse(dir string) error {
	who := "another worker"
	var h holder
	if data, err := durable.ReadFile(filepath.Join(dir, "worker.json")); err == nil && json.Unmarshal(data, &h) == nil && h.PID != 0 {
		who = fmt.Sprintf("the worker %s, process %d since %s,", h.Worker, h.PID, h.Since.Local().Format(time.DateTime))
	}
	return &bridge.Error{Code: bridge.CodeBusy, Message: who + " uses " + dir, Remedy: "end that worker, or give this one another directory with --workspace-root"}
}

// closeRoot gives the directory back and returns err, and what goes wrong besides.
func closeRoot(r *root, err error) error {
	if r.mirrors != nil {
		err = errors.Join(err, r.mirrors.Close())
	}
	err = errors.Join(err, r.removeWork())
	if gone := os.Remove(r.holderFile()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return errors.Join(err, r.unlock())
}

// removeWork removes what only a running worker needs.
func (r *root) removeWork() error {
	return errors.Join(removeAll(filepath.Join(r.dir, "trees")), removeAll(filepath.Join(r.dir, "results")), removeAll(filepath.Join(r.dir, "git")))
}

// sweep removes everything but the mirrors, and what stands half-done in those.
func (r *root) sweep() error {
	err := r.removeWork()
	found, listErr := os.ReadDir(filepath.Join(r.dir, "mirrors"))
	if !errors.Is(listErr, fs.ErrNotExist) {
		err = errors.Join(err, listErr)
	}
	for _, f := range found {
		path := filepath.Join(r.dir, "mirrors", f.Name())
		switch {
		case strings.HasPrefix(f.Name(), "."): // being made or removed
			err = errors.Join(err, removeAll(path))
		case f.IsDir(): // all its worktrees were in trees
			err = errors.Join(err, removeAll(filepath.Join(path, "worktrees")), unlockAll(path))
		}
	}
	return err
}

// unlockAll removes the locks that killed gits have left.
func unlockAll(mirror string) error {
	return filepath.WalkDir(mirror, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "objects":
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(d.Name(), ".lock"):
			return os.Remove(path)
		}
		return nil
	})
}

// lockMirror waits until nobody else fetches into a mirror.
func (r *root) lockMirror(ctx context.Context, repo string) (unlock func(), err error) {
	r.mu.Lock()
	lock := r.receiving[repo]
	if lock == nil {
		lock = make(chan struct{}, 1)
		r.receiving[repo] = lock
	}
	r.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tree is where the worktrees of a repository are.
func (r *root) tree(repo string) (string, error) {
	dir := filepath.Join(r.dir, "trees", repo)
	return dir, os.MkdirAll(dir, 0o700)
}

// result is the file for a result's bundle.
func (r *root) result(claim string) (file string, remove func() error, err error) {
	file = filepath.Join(r.dir, "results", claim)
	remove = func() error {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return file, remove, os.MkdirAll(filepath.Dir(file), 0o700)
}

// removeAll deletes a directory, read-only parts of it too.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	walkErr := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return &bridge.Error{Code: bridge.CodeInternal, Message: "the directory of a task could not be removed", Cause: errors.Join(err, walkErr), Remedy: "remove " + dir + " by hand"}
	}
	return nil
}
