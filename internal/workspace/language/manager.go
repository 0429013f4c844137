package language

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Options of a Manager; all may be left out.
type Options struct {
	Servers map[string]Server // by language, over the built-in table

	IdleTimeout    time.Duration // how long a server nobody asks is kept; 0: 10 minutes
	StartTimeout   time.Duration // 0: 30 s
	RequestTimeout time.Duration // of one operation, its server running; 0: 60 s

	// Permit is asked before a server or a formatter is started; an error
	// keeps it from starting. nil: all may.
	Permit func(context.Context, Start) error
	// Confine puts a server or a formatter in a sandbox, in which process ids
	// mean others than outside. nil: there is none.
	Confine func(context.Context, program.Command) (program.Command, error)

	Env    []string      // of servers and formatters; nil: ours without what looks like a secret
	Trees  program.Trees // supervises them, so that nothing outlives a killed bridge
	Logger *slog.Logger
}

// Manager serves the files of one directory. All methods may be called
// concurrently.
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
	setDefault(&opts.IdleTimeout, 10*time.Minute)
	setDefault(&opts.StartTimeout, 30*time.Second)
	setDefault(&opts.RequestTimeout, 60*time.Second)
	if opts.Env == nil {
		opts.Env = task.PlainEnviron(os.Environ())
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Manager{dir: dir, opts: opts, table: newTable(opts.Servers), log: log, ctx: ctx, stop: stop, slots: map[string]*slot{}}
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
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
	slots := make([]*slot, 0, len(m.slots))
	for _, s := range m.slots {
		slots = append(slots, s)
	}
	m.mu.Unlock()
	stats := make([]ServerStats, 0, len(slots))
	for _, s := range slots {
		stats = append(stats, s.stats())
	}
	slices.SortFunc(stats, func(a, b ServerStats) int { return strings.Compare(a.Language, b.Language) })
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
	slots := make([]*slot, 0, len(m.slots))
	for _, s := range m.slots {
		slots = append(slots, s)
	}
	m.mu.Unlock()
	m.stop()
	errs := make(chan error, len(slots))
	for _, s := range slots {
		go func() { errs <- s.close(ctx) }()
	}
	var first error
	for range slots {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	m.wg.Wait()
	return first
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
	const maxLines, maxBytes = 6, 600
	said = strings.TrimSpace(said)
	if said == "" {
		return ""
	}
	lines := strings.Split(said, "\n")
	said = strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
	return "; it said: " + strings.ToValidUTF8(said[max(0, len(said)-maxBytes):], "")
}
