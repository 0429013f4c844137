package language

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task/group"
)

// Options of a Manager; all may be left out.
type Options struct {
	Servers map[string]Server // by language, over the built-in table

	IdleTimeout    time.Duration // how long a server nobody asks is kept; 0: 10 minutes
	StartTimeout   time.Duration // 0: 30 s
	RequestTimeout time.Duration // of one operation, its server running; 0: 60 s

	// Permit is asked before a server is started that may run code of the
	// project; an error keeps it from starting. nil: it may.
	Permit func(context.Context, Info) error

	LookPath func(string) (string, error) // finds programs; nil: exec.LookPath
	Env      []string                     // of servers and formatters; nil: ours without what looks like a secret
	Trees    group.Trees                  // supervises them, so that nothing outlives a killed bridge
	Logger   *slog.Logger
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
	if opts.LookPath == nil {
		opts.LookPath = exec.LookPath
	}
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

// Info is who would serve a file.
type Info struct {
	Language  string   `json:"language"`
	Command   []string `json:"command,omitempty"`   // empty if no server is installed
	Formatter []string `json:"formatter,omitempty"` // empty if none is installed
	RunsCode  bool     `json:"runsCode,omitempty"`  // the server may run code of the workspace
}

// Describe says who would serve a file, without starting anything.
func (m *Manager) Describe(path string) (Info, bool) {
	name, _, ok := m.table.find(path)
	if !ok {
		return Info{}, false
	}
	s := m.table.servers[name]
	info := Info{Language: name, RunsCode: s.RunsCode}
	if command, err := m.program(name, s); err == nil {
		info.Command = command
	}
	if formatter, ok := m.formatter(s, path); ok {
		info.Formatter = formatter
	}
	return info, true
}

// program finds the server's program.
func (m *Manager) program(name string, s Server) ([]string, error) {
	configured := len(m.opts.Servers[name].Command) > 0
	candidates := append([][]string{s.Command}, s.others...)
	var tried []string
	for _, c := range candidates {
		if len(c) == 0 {
			continue
		}
		if path, ok := m.look(c[0], configured); ok {
			return append([]string{path}, c[1:]...), nil
		}
		tried = append(tried, c[0])
	}
	remedy := s.Install
	if remedy == "" {
		remedy = "Install a language server and name its command in the configuration."
	}
	what := "no language server is configured for " + name
	if len(tried) > 0 {
		what = fmt.Sprintf("the language server for %s (%s) was not found", name, strings.Join(tried, " or "))
	}
	return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: what, Remedy: remedy}
}

// look finds a program. What a workspace brings along is only run if a person
// configured it.
func (m *Manager) look(program string, configured bool) (string, bool) {
	path, err := m.opts.LookPath(program)
	if err != nil {
		return "", false
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", false
	}
	return path, configured || !m.contains(path)
}

func (m *Manager) contains(path string) bool {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	rel, err := filepath.Rel(m.dir, path)
	return err == nil && filepath.IsLocal(rel)
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

// tail keeps the last bytes written to it. It may be used concurrently.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

var _ io.Writer = (*tail)(nil)

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-tailSize):]...)
	t.kept = t.kept[max(0, len(t.kept)-tailSize):]
	return len(p), nil
}

// quoted is the end of it as the end of a message.
func (t *tail) quoted() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	const maxLines, maxBytes = 6, 600
	said := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), ""))
	if said == "" {
		return ""
	}
	lines := strings.Split(said, "\n")
	said = strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
	return "; it said: " + strings.ToValidUTF8(said[max(0, len(said)-maxBytes):], "")
}
