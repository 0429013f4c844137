// Package live makes the bridge's processes known to each other through small
// files in the bridge's home: who runs, which questions are open, and what a
// process is asked to do. There is no daemon and no socket. Each process owns a
// directory and holds its lock while it lives; whoever finds the lock free
// removes the directory. Processes with an engine call Start; those that show
// or steer them call Processes and Send.
package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// Process is a running process of the bridge.
type Process struct {
	ID string `json:"id"` // its directory's name
	supervise.Process
	Command   string    `json:"command"`             // serve, run, chat, …
	Workspace string    `json:"workspace,omitempty"` // absolute
	Version   string    `json:"version,omitempty"`
	URL       string    `json:"url,omitempty"` // where it serves
	Since     time.Time `json:"since"`
}

// The parts of a process' directory.
const (
	lockFile     = "lock"
	processFile  = "process.json"
	ordersDir    = "orders"
	timelinesDir = "timelines"
)

// starting is how long a directory without a description may be that of a
// process which is about to write it.
const starting = time.Minute

// Dir is where the processes' directories are, in the bridge's home.
func Dir(home string) string { return filepath.Join(home, "live") }

// Timelines is where a process keeps the timelines that end with it.
func Timelines(home, process string) string {
	return filepath.Join(Dir(home), process, timelinesDir)
}

// Local is this process, as others see it. Its methods may be called
// concurrently.
type Local struct {
	home string
	dir  string

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // what Close waits for
	unlock func() error

	mu      sync.Mutex
	process Process
	handle  func(context.Context, Order) error
	closed  bool
}

// Start makes this process known. Its id, process and time are set here.
// Whoever calls it calls Close.
func Start(home string, p Process) (*Local, error) {
	p.Process = supervise.Self()
	p.ID = strconv.Itoa(p.PID) + "-" + strings.ToLower(rand.Text()[:8])
	if p.Since.IsZero() {
		p.Since = time.Now()
	}
	l := &Local{home: home, dir: filepath.Join(Dir(home), p.ID), process: p}
	if err := os.MkdirAll(filepath.Join(l.dir, ordersDir), 0o700); err != nil {
		return nil, fmt.Errorf("make this process known: %w", err)
	}
	unlock, free, err := durable.TryLock(filepath.Join(l.dir, lockFile))
	if err == nil && !free {
		err = fmt.Errorf("%s is locked by another process", l.dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	l.unlock = unlock
	if err := l.describe(); err != nil {
		return nil, errors.Join(err, unlock(), os.RemoveAll(l.dir))
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.work.Go(l.follow)
	return l, nil
}

// describe writes the process' description.
func (l *Local) describe() error {
	data, err := json.Marshal(l.process)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(l.dir, processFile), append(data, '\n'), 0o600)
}

// ID names this process among those of the home.
func (l *Local) ID() string { return l.process.ID }

// Home is the bridge's home.
func (l *Local) Home() string { return l.home }

// Dir is the process' directory.
func (l *Local) Dir() string { return l.dir }

// SetURL tells where the process serves, once that is known.
func (l *Local) SetURL(url string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.process.URL = url
	return l.describe()
}

// Close makes the process unknown again. It waits for the orders that are being
// carried out; their context ends.
func (l *Local) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.cancel()
	l.work.Wait()
	// The lock goes last: nobody else removes what is still locked. Windows
	// does not remove an open file, so there the lock has to go before it.
	err := os.Remove(filepath.Join(l.dir, processFile))
	return errors.Join(err, l.unlock(), os.RemoveAll(l.dir))
}

// idForm is the form of the ids of processes, orders and questions. It keeps
// them from leading elsewhere when they are made part of a path.
var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$`)

// Processes lists the processes that live, the oldest first. It removes the
// directories of those that have died.
func Processes(home string) ([]Process, error) {
	entries, err := os.ReadDir(Dir(home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the running processes: %w", err)
	}
	var out []Process
	for _, e := range entries {
		if !e.IsDir() || !idForm.MatchString(e.Name()) {
			continue
		}
		if p, ok := look(filepath.Join(Dir(home), e.Name())); ok {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b Process) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// Alive says whether a process of the home lives.
func Alive(home, process string) bool {
	if !idForm.MatchString(process) {
		return false
	}
	_, ok := look(filepath.Join(Dir(home), process))
	return ok
}

// look reads a process' description if it lives, and removes its directory if it
// does not.
func look(dir string) (p Process, alive bool) {
	data, err := durable.ReadFile(filepath.Join(dir, processFile))
	if errors.Is(err, fs.ErrNotExist) {
		// It starts, it ends, or it was killed while it did one of them.
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < starting {
			return p, false
		}
	}
	unlock, free, err := durable.TryLock(filepath.Join(dir, lockFile))
	if err == nil && free {
		// Another process may be removing it too; what stays is removed next time.
		_ = unlock()
		_ = os.RemoveAll(dir)
		return p, false
	}
	if json.Unmarshal(data, &p) != nil || p.ID != filepath.Base(dir) {
		return p, false
	}
	return p, true
}

// gone is the error for a process that does not live.
func gone(process string) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "the process " + process + " has ended"}
}
