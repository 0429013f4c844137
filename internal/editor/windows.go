package editor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// aliveWithin is how long it may take to see that a window lives: its lock is
// held, which the system releases when the process dies.
const aliveWithin = 50 * time.Millisecond

// Window is what the bridge in a window tells other programs of the same user,
// in a file that only they can read.
type Window struct {
	Ready
	Editor  string   `json:"editor"`
	Folders []string `json:"folders"`
	Token   string   `json:"token"` // secret
}

// WindowFile is the file of this process's own window.
type WindowFile struct {
	path   string // the lock is beside it
	unlock func() error
}

// AddWindow takes a place among the windows of a directory, and removes those
// of windows that were killed. The caller must call Remove.
func AddWindow(ctx context.Context, dir string) (*WindowFile, error) {
	if _, err := Windows(ctx, dir); err != nil {
		return nil, err
	}
	r := &WindowFile{path: filepath.Join(dir, strconv.Itoa(os.Getpid())+".json")}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var err error
	if r.unlock, err = durable.Lock(ctx, lockOf(r.path)); err != nil {
		return nil, err
	}
	return r, nil
}

func lockOf(path string) string { return strings.TrimSuffix(path, ".json") + ".lock" }

// Write replaces what the file says.
func (r *WindowFile) Write(w Window) error {
	data, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(r.path, append(data, '\n'), 0o600)
}

// Remove removes the file. The lock goes last: without it the file counts for
// nothing.
func (r *WindowFile) Remove() error {
	err := remove(r.path)
	return errors.Join(err, r.unlock(), remove(lockOf(r.path)), remove(lockOf(r.path)+".queue"))
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Windows are the editors' windows in which a bridge runs, by their files in a
// directory. What killed ones have left is removed.
func Windows(ctx context.Context, dir string) ([]Window, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Window
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if !alive(ctx, path) {
			continue
		}
		var w Window
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &w) == nil && w.URL != "" {
			out = append(out, w)
		}
	}
	return out, nil
}

// alive says whether the window of an entry still runs, and removes the entry
// if not.
func alive(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveWithin)
	defer cancel()
	unlock, err := durable.Lock(ctx, lockOf(path))
	if err != nil {
		return bridge.CodeOf(err) == bridge.CodeBusy || bridge.CodeOf(err) == bridge.CodeTimeout
	}
	_ = (&WindowFile{path: path, unlock: unlock}).Remove() // another time, if not now
	return false
}

// WindowAt finds the window in one of whose folders a directory lies: of
// several the one whose folder is nearest.
func WindowAt(windows []Window, dir string) (best Window, ok bool) {
	longest := -1
	for _, w := range windows {
		for _, f := range w.Folders {
			for _, at := range []string{f, plainPath(f)} {
				for _, d := range []string{dir, plainPath(dir)} {
					if rel, err := filepath.Rel(at, d); err == nil && filepath.IsLocal(rel) && len(at) > longest {
						best, ok, longest = w, true, len(at)
					}
				}
			}
		}
	}
	return best, ok
}

// plainPath is a path without links, if it can be told.
func plainPath(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}
