package sdk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// startWithin is how long the runtime may take to answer for the first time:
// it is 200 MB to load, from a cold disk on a busy machine.
const startWithin = time.Minute

// process is one run of the runtime.
type process struct {
	client *copilot.Client
	tree   *supervise.Tree
	home   string       // where it keeps its sessions
	temp   string       // its temporary directory, if it has one of its own
	heard  atomic.Int64 // when a session last said anything, in Unix nanoseconds
	turns  atomic.Int32 // under way
	served atomic.Int64 // turns that ended well
	young  atomic.Int64 // bytes that it held after the first of them

	// use guards client: the SDK's is not safe to use while it is stopped, and
	// one that has been stopped starts the program again when it is used.
	use     sync.RWMutex
	stopped bool

	mu       sync.Mutex
	sessions map[*copilot.Session]struct{} // not disconnected yet
	leaving  int                           // being disconnected
	doomed   []string                      // sessions whose files go with the process
	ended    bool
	wrapped  bool // see wrapBubblewrap
}

// call uses the client, unless it has been stopped.
func (p *process) call(f func(*copilot.Client) error) error {
	p.use.RLock()
	defer p.use.RUnlock()
	if p.stopped {
		return &bridge.Error{Code: bridge.CodeCrashed, Message: "the Copilot runtime has exited", Remedy: "try again: the runtime is started anew"}
	}
	return f(p.client)
}

// stop ends the use of the client. The program has been ended before, so that
// nobody waits for it any more.
func (p *process) stop() {
	p.use.Lock()
	defer p.use.Unlock()
	p.stopped = true
	p.client.ForceStop()
}

func (p *process) attach(s *copilot.Session) {
	p.mu.Lock()
	p.sessions[s] = struct{}{}
	p.mu.Unlock()
}

func (p *process) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions) == 0 && p.leaving == 0
}

// detach takes a session out that is about to be disconnected; gone says that
// it has been. The process is not ended for want of sessions in between.
func (p *process) detach(s *copilot.Session) (gone func()) {
	gone = p.stay()
	p.mu.Lock()
	delete(p.sessions, s)
	p.mu.Unlock()
	return gone
}

// stay keeps the process from being ended for want of sessions.
func (p *process) stay() (leave func()) {
	p.mu.Lock()
	p.leaving++
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.leaving--
		p.mu.Unlock()
	}
}

// disconnect ends the SDK's goroutine of every session that is left. The
// process is dead by then, so each call only fails quickly.
func (p *process) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		_ = s.Disconnect() // says that the process is gone
	}
	clear(p.sessions)
}

// host keeps one process running: it starts the first and the successors of
// those that died. Its methods serialise on mu.
type host struct {
	opts    *Options
	profile bridge.Profile
	agent   *Agent
	present atomic.Pointer[process] // proc, unless it is dead; for those who cannot wait for mu
	pending int                     // sessions about to be opened or deleted; Agent.mu guards it
	going   bool                    // no more sessions are opened on it; Agent.mu guards it

	mu       sync.Mutex
	proc     *process  // nil before the first start
	dead     bool      // proc must be replaced
	crashes  int       // in a row, without a turn that worked between
	notUntil time.Time // when the next start may be tried
	closed   bool
	retired  map[*process]struct{} // replaced, but with sessions left
}

func newHost(a *Agent, p bridge.Profile) *host {
	return &host{opts: &a.opts, profile: p, agent: a}
}

// ensure returns a process that was alive a moment ago. If it is replaced it
// does not end before done is called.
func (h *host) ensure(ctx context.Context) (p *process, done func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc == nil || h.dead || h.closed {
		if err := h.restart(ctx); err != nil {
			return nil, nil, err
		}
	}
	return h.proc, h.hold(ctx, h.proc), nil
}

// hold keeps a process from being ended for want of sessions, for somebody who
// is about to use it. mu is held.
func (h *host) hold(ctx context.Context, p *process) (done func()) {
	leave := p.stay()
	return func() {
		if leave(); h.present.Load() == p {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if err := h.endIfLeft(ctx, p); err != nil {
			h.opts.Logger.Warn("ending a runtime that was replaced", "error", err)
		}
	}
}

// restart makes sure that there is a process. mu is held.
func (h *host) restart(ctx context.Context) error {
	if h.closed {
		return errClosed()
	}
	if h.proc != nil {
		if err := h.discard(ctx, h.proc.tree.Stop); err != nil {
			h.opts.Logger.Warn("ending a dead runtime", "error", err)
		}
	}
	if wait := time.Until(h.notUntil); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("waiting to restart the runtime: %w", ctx.Err())
		}
	}
	proc, err := h.start(ctx)
	if err != nil {
		h.backOff()
		return err
	}
	h.proc, h.dead = proc, false
	h.present.Store(proc)
	return nil
}

// alive says whether there is a process that nobody has seen dying.
func (h *host) alive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proc != nil && !h.dead
}

func errClosed() error {
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the agent is closed"}
}

func (h *host) start(ctx context.Context) (*process, error) {
	began := time.Now()
	tree, err := supervise.NewTree(h.opts.Records, h.opts.Self)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "cannot keep process records", Cause: err,
			Remedy: "make sure that the directory " + h.opts.Records + " can be written"}
	}
	home, err := h.home(tree)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "cannot make the runtime's directory", Cause: err,
			Remedy: "make sure that " + h.opts.Home + " can be written"}
	}
	temp, tempEnv, err := h.temp(tree)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "cannot make a temporary directory for the runtime", Cause: err,
			Remedy: "make sure that " + os.TempDir() + " can be written, or set TMPDIR to a directory that can"}
	}
	path, args, env := tree.Command(h.opts.Runtime)
	if h.opts.Token != "" {
		// Not as the SDK would do it: the runtime hands the SDK's variable on to
		// every shell, and takes this one out.
		args = append(args, "--auth-token-env", tokenVariable)
		env = append(env, tokenVariable+"="+h.opts.Token)
	}
	opts := copilot.ClientOptions{
		Connection:      copilot.StdioConnection{Path: path, Args: args},
		BaseDirectory:   home,
		LogLevel:        runtimeLogLevel(h.opts.LogLevel),
		Env:             slices.Concat(h.environment(), tempEnv, env),
		UseLoggedInUser: copilot.Bool(h.opts.UseLogin && h.opts.Token == ""),
		ClientInfo:      &copilot.ClientInfo{ApplicationName: "copilot-bridge", ApplicationVersion: h.opts.Version},
		Mode:            copilot.ModeCopilotCli,
	}
	if h.profile == bridge.ProfileChat {
		// Away from the user's project: in a repository the runtime starts git
		// with every turn.
		opts.Mode, opts.WorkingDirectory = copilot.ModeEmpty, home
	}
	if t := h.opts.Telemetry; t != nil {
		opts.Telemetry = &copilot.TelemetryConfig{OTLPEndpoint: t.OTLPEndpoint, FilePath: t.FilePath,
			ExporterType: t.ExporterType, SourceName: t.SourceName, CaptureContent: &t.CaptureContent}
	}
	client := copilot.NewClient(&opts)
	startCtx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if err := startClient(startCtx, client); err != nil {
		client.ForceStop()
		return nil, h.explainStart(errors.Join(err, tree.Stop(context.WithoutCancel(ctx))))
	}
	h.opts.Logger.Debug("runtime started", "profile", h.profile, "pid", tree.ProgramPID(), "took", time.Since(began))
	return &process{client: client, tree: tree, home: home, temp: temp, sessions: map[*copilot.Session]struct{}{}}, nil
}

// home is where a new process keeps its state. Chats are nobody's but ours: a
// place of their own ends with the process, whoever ends it, so that not even
// a bridge that was killed leaves any behind. The user's login is in the
// common one, though.
func (h *host) home(tree *supervise.Tree) (string, error) {
	if h.profile != bridge.ProfileChat || h.opts.UseLogin {
		return h.opts.Home, os.MkdirAll(h.opts.Home, 0o700)
	}
	logs := filepath.Join(h.opts.Home, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return "", err
	}
	at, err := tree.Place(filepath.Join(h.opts.Home, "chats"), "")
	if err != nil {
		return "", err
	}
	if err := os.Symlink(logs, filepath.Join(at, "logs")); err != nil {
		h.opts.Logger.Debug("the logs of chats end with them", "error", err) // Windows allows it to some only
	}
	return at, nil
}

// temp gives the agent a temporary directory of its own, which goes with the
// process. The runtime puts long outputs of tools there, for everybody on the
// machine to read and for ever, and so do the programs that it runs.
func (h *host) temp(tree *supervise.Tree) (at string, env []string, err error) {
	if h.profile == bridge.ProfileChat {
		return "", nil, nil // runs no tools
	}
	env, err = tree.Temp()
	at = program.Variable(env, "TMPDIR")
	// The runtime looks for bubblewrap on its PATH with every command.
	return at, append(env, "PATH="+wrapperDir(at)+string(os.PathListSeparator)+program.Variable(h.opts.Env, "PATH")), err
}

// startClient bounds Start by ctx, which the SDK's handshake does not do in
// every phase.
func startClient(ctx context.Context, c *copilot.Client) error {
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		c.ForceStop() // makes Start return
		<-done
		return ctx.Err()
	}
}

// backOff sets how long the next start has to wait.
func (h *host) backOff() {
	h.crashes++
	pause := min(5*time.Second, 100*time.Millisecond<<min(h.crashes-1, 8))
	if h.crashes == 1 {
		pause = 0 // one crash may be chance
	}
	h.notUntil = time.Now().Add(pause)
}

// crashed is called with the process that was seen dying or hanging; the
// first caller has its tree ended, and the next ensure starts anew.
func (h *host) crashed(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.retired[p]; ok {
		delete(h.retired, p)
		if err := h.end(context.Background(), p, p.tree.Stop); err != nil {
			h.opts.Logger.Warn("sweeping after a crash", "error", err)
		}
		return
	}
	if h.proc != p || h.dead {
		return
	}
	h.dead = true
	h.present.Store(nil)
	h.backOff()
	if err := p.tree.Stop(context.Background()); err != nil {
		h.opts.Logger.Warn("sweeping after a crash", "error", err)
	}
}

// noticed passes an error on; one that says that p is dead has it replaced.
func (h *host) noticed(p *process, err error) error {
	if bridge.CodeOf(err) == bridge.CodeCrashed {
		h.crashed(p)
	}
	return err
}

// worked is called after a turn of p that ended well.
func (h *host) worked(p *process) {
	if p.served.Add(1) == 1 {
		p.young.Store(p.resident())
	}
	h.mu.Lock()
	h.crashes = 0
	h.mu.Unlock()
}

// discard ends the current process at once. mu is held.
func (h *host) discard(ctx context.Context, how func(context.Context) error) error {
	p := h.proc
	h.proc = nil
	h.present.Store(nil)
	return h.end(ctx, p, how)
}

// close ends the processes in good order: they may write what they hold, then
// their trees are ended.
func (h *host) close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	err := h.endRetired(ctx)
	if h.proc == nil {
		return err
	}
	how := h.proc.tree.Stop
	if !h.dead {
		how = h.shutdown(ctx, h.proc)
	}
	return errors.Join(err, h.discard(ctx, how))
}

// ProgramPID is the pid of a profile's first runtime itself, for tests that
// kill it.
func (a *Agent) ProgramPID(p bridge.Profile) int {
	if pids := a.ProgramPIDs(p); len(pids) > 0 {
		return pids[0]
	}
	return 0
}

// ProgramPIDs are those of all of a profile's lanes.
func (a *Agent) ProgramPIDs(p bridge.Profile) []int {
	a.mu.Lock()
	lanes := a.lanes[p]
	a.mu.Unlock()
	var out []int
	for _, h := range lanes {
		out = append(out, h.programPID())
	}
	return out
}

func (h *host) programPID() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc == nil {
		return 0
	}
	return h.proc.tree.ProgramPID()
}

// runtimeLogLevel: the runtime's logs go to its own files; ours says how much.
func runtimeLogLevel(l string) string {
	if l == "" {
		return "error"
	}
	return l
}
