package app

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

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// aliveWithin is how long it may take to see that a window lives: its lock is
// held, which the system lets go when the process dies.
const aliveWithin = 50 * time.Millisecond

// OpenedWindow is what a window tells other programs of the same user, in a
// file that only they can read.
type OpenedWindow struct {
	PID     int      `json:"pid"`
	Editor  string   `json:"editor"`
	URL     string   `json:"url"`
	RPC     string   `json:"rpc"`
	MCP     string   `json:"mcp"`
	Folders []string `json:"folders"`
	Token   string   `json:"token"` // secret
}

// register is a window's own entry.
type register struct {
	path   string // of the file; the lock is beside it
	unlock func() error
}

func windowsDir(c *config.Config) string { return c.Path("windows") }

// enroll takes a place among the windows, and clears away those of windows
// that were killed.
func enroll(ctx context.Context, c *config.Config) (*register, error) {
	if _, err := Windows(ctx, c); err != nil {
		return nil, err
	}
	r := &register{path: filepath.Join(windowsDir(c), strconv.Itoa(os.Getpid())+".json")}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var err error
	if r.unlock, err = durable.Lock(ctx, lockOf(r.path)); err != nil {
		return nil, err
	}
	return r, nil
}

func lockOf(path string) string { return strings.TrimSuffix(path, ".json") + ".lock" }

// write says what is so now.
func (r *register) write(w OpenedWindow) error {
	data, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(r.path, append(data, '\n'), 0o600)
}

// leave takes the entry away. The lock goes last: without it the file counts
// for nothing.
func (r *register) leave() error {
	err := remove(r.path)
	return errors.Join(err, r.unlock(), remove(lockOf(r.path)), remove(lockOf(r.path)+".queue"))
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Windows are the editors' windows in which a bridge runs. What killed ones
// have left is removed.
func Windows(ctx context.Context, c *config.Config) ([]OpenedWindow, error) {
	entries, err := os.ReadDir(windowsDir(c))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []OpenedWindow
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		path := filepath.Join(windowsDir(c), e.Name())
		if !alive(ctx, path) {
			continue
		}
		var w OpenedWindow
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
	_ = (&register{path: path, unlock: unlock}).leave() // another time, if not now
	return false
}

// windowAt finds the window in one of whose folders a directory lies: of
// several the one whose folder is nearest.
func windowAt(windows []OpenedWindow, dir string) (best OpenedWindow, ok bool) {
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
