package lsp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Options of a Manager; all may be left out.
type Options struct {
	Servers map[string]Server // by language, over the built-in table

	IdleTimeout    time.Duration // how long an idle server is kept; 0: 10 minutes
	StartTimeout   time.Duration // 0: 30 s
	RequestTimeout time.Duration // of one operation, its server running; 0: 60 s

	// Permit is asked before a server or a formatter is started; an error
	// keeps it from starting. nil: all may.
	Permit func(context.Context, Start) error
	// Rules names the rules under which servers are permitted and confined. A
	// server from under others is replaced at its next use. nil: always the same.
	Rules func() string
	// Confine puts a server or a formatter in a sandbox, in which process ids
	// mean others than outside. nil: there is none.
	Confine func(context.Context, program.Command) (program.Command, error)

	Env    []string      // of servers and formatters; nil: ours without what looks like a secret
	Trees  program.Trees // supervises them, so that nothing outlives a killed bridge
	Logger *slog.Logger
}

// Manager serves the files of one directory. It keeps one server per language,
// shared by concurrent callers, restarts it when it dies and stops it when it
// is idle. All methods may be called concurrently.
type Manager struct {
	dir   string
	opts  Options
	table table
	log   *slog.Logger

	ctx  context.Context // ends with Close; servers are started under it
	stop context.CancelFunc

	mu     sync.Mutex
	slots  map[string]*slot
	closed bool
	wg     sync.WaitGroup // added to under mu while not closed
}

// New returns a manager for dir. No server is started before it is needed;
// Close ends those that were.
func New(dir string, opts Options) *Manager {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	// Servers resolve links themselves, and answer with what they found.
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	opts.IdleTimeout = cmp.Or(max(opts.IdleTimeout, 0), 10*time.Minute)
	opts.StartTimeout = cmp.Or(max(opts.StartTimeout, 0), 30*time.Second)
	opts.RequestTimeout = cmp.Or(max(opts.RequestTimeout, 0), 60*time.Second)
	if opts.Env == nil {
		opts.Env = task.PlainEnviron(os.Environ())
	}
	if opts.Rules == nil {
		opts.Rules = func() string { return "" }
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Manager{dir: dir, opts: opts, table: newTable(opts.Servers), log: log, ctx: ctx, stop: stop, slots: map[string]*slot{}}
}

// ServerStats is the state of one language's server.
type ServerStats struct {
	Language  string    `json:"language"`
	Running   bool      `json:"running"`
	PID       int       `json:"pid,omitempty"`
	Command   []string  `json:"command,omitempty"`
	Starts    int       `json:"starts"`
	Requests  int       `json:"requests"`
	Active    int       `json:"active"`
	LastUsed  time.Time `json:"lastUsed"`
	LastError string    `json:"lastError,omitempty"`
}

// Stats tells of the servers that were needed so far, by language.
func (m *Manager) Stats() []ServerStats {
	m.mu.Lock()
	slots := slices.Collect(maps.Values(m.slots))
	m.mu.Unlock()
	stats := make([]ServerStats, 0, len(slots))
	for _, s := range slots {
		stats = append(stats, s.stats())
	}
	slices.SortStableFunc(stats, func(a, b ServerStats) int { return strings.Compare(a.Language, b.Language) })
	return stats
}

// Changed tells the servers that files were written, made or removed, so that
// the next operation sees them. Without it changes are noticed too, but not
// within a moment of the last look.
func (m *Manager) Changed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.slots {
		s.stale.Store(true)
	}
}

// Close ends all servers and what they started, and waits for that. It asks
// them politely until ctx ends. Operations under way fail.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	slots := slices.Collect(maps.Values(m.slots))
	m.mu.Unlock()
	m.stop()
	errs := make([]error, len(slots))
	var closing sync.WaitGroup
	for i, s := range slots {
		closing.Go(func() { errs[i] = s.close(ctx) })
	}
	closing.Wait()
	m.wg.Wait()
	return errors.Join(errs...)
}

// begin counts one more thing that Close waits for.
func (m *Manager) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.wg.Add(1)
	return true
}

func (m *Manager) slot(name string) (*slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, closedError()
	}
	s := m.slots[name]
	if s == nil {
		s = &slot{m: m, language: name, server: m.table.servers[name]}
		m.slots[name] = s
	}
	return s, nil
}

func closedError() error {
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the language servers have been shut down"}
}

const saidSize = 8 << 10 // of what a program says, its end

// quoted is the end of what a program said, as the end of a message.
func quoted(said string) string {
	if said = text.LastLines(said, 6, 600); said == "" {
		return ""
	}
	return "; it said: " + said
}
