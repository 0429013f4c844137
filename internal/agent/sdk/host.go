package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/environ"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// startWithin is how long the runtime may take to answer for the first time:
// it is 200 MB to load, from a cold disk on a busy machine.
const startWithin = time.Minute

// process is one run of the runtime.
type process struct {
	client       *copilot.Client
	tree         *supervise.Tree
	home         string        // where it keeps its sessions
	temp         string        // its private temporary directory, if any
	heard        atomic.Int64  // when a session last said anything, in Unix nanoseconds
	turns        atomic.Int32  // under way
	served       atomic.Int64  // turns that ended well
	loginRefused atomic.Bool   // GitHub has refused its login
	young        atomic.Int64  // bytes that it held after the first of them
	nudged       chan struct{} // holds a token when a turn or session has ended, see drain

	// account is known after the first look-up that worked. Who asks holds asking;
	// refused is what came of the last one, good until askAgain.
	account  atomic.Pointer[account]
	refused  atomic.Pointer[bridge.Error]
	asking   chan struct{}
	askAgain time.Time

	// use guards client: the SDK's is not safe to use while it is stopped, and
	// one that has been stopped starts the program again when it is used.
	use     sync.RWMutex
	stopped bool

	mu       sync.Mutex
	sessions map[*session]struct{} // not disconnected yet
	leaving  int                   // being disconnected
	doomed   []string              // sessions whose files go with the process
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
// no call waits for it.
func (p *process) stop() {
	p.use.Lock()
	defer p.use.Unlock()
	p.stopped = true
	p.client.ForceStop()
}

func (p *process) attach(s *session) {
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
func (p *process) detach(s *session) (gone func()) {
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
		_ = s.sdk.Disconnect() // says that the process is gone
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

	opening atomic.Int32 // sessions on their way
	starts  atomic.Int64 // of processes

	ctx    context.Context // ends with close
	stop   context.CancelFunc
	drains sync.WaitGroup // one for each retired process; added to under mu, while not closed

	mu       sync.Mutex
	proc     *process  // nil before the first start, and when it was retired
	dead     bool      // proc must be replaced
	crashes  int       // in a row, without a turn that worked between
	notUntil time.Time // when the next start may be tried
	closed   bool
	retired  map[*process]struct{} // to end with their last session
}

func newHost(a *Agent, p bridge.Profile) *host {
	h := &host{opts: &a.opts, profile: p, agent: a, retired: map[*process]struct{}{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
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
	return h.proc, h.hold(h.proc), nil
}

// hold keeps a process from being ended for lack of sessions, for a caller
// that is about to use it.
func (h *host) hold(p *process) (done func()) {
	leave := p.stay()
	return func() {
		leave()
		p.nudge()
	}
}

// restart makes sure that there is a process. mu is held.
func (h *host) restart(ctx context.Context) error {
	if h.closed {
		return common.ErrClosed()
	}
	if h.proc != nil {
		if err := h.discard(ctx, h.proc.tree.Stop); err != nil {
			h.opts.Logger.Warn("runtime.not_ended", "error", err)
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
	h.starts.Add(1)
	h.proc, h.dead = proc, false
	h.present.Store(proc)
	return nil
}

// alive says whether there is a process, not seen dying.
func (h *host) alive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proc != nil && !h.dead
}

// unwritable is the error for a file or directory that could not be made.
func (h *host) unwritable(message, remedy string, err error) error {
	if noSpace(err.Error()) {
		return bridge.AsError(err)
	}
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: message, Remedy: remedy, Cause: err}
}

func (h *host) start(ctx context.Context) (*process, error) {
	began := time.Now()
	tree, err := supervise.NewTree(h.opts.Records, h.opts.Self)
	if err != nil {
		return nil, h.unwritable("cannot keep process records", "make sure that the directory "+h.opts.Records+" can be written", err)
	}
	home, err := h.home(tree)
	if err != nil {
		return nil, h.unwritable("cannot make the runtime's directory", "make sure that "+h.opts.Home+" can be written", err)
	}
	temp, tempEnv, err := h.temp(tree)
	if err != nil {
		return nil, h.unwritable("cannot make a temporary directory for the runtime",
			"make sure that "+os.TempDir()+" can be written, or set TMPDIR to a directory that can", err)
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
		Env:             environ.UTF8(slices.Concat(h.environment(), tempEnv, env)),
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
		opts.Telemetry = &copilot.TelemetryConfig{OTLPEndpoint: t.OTLPEndpoint, OTLPProtocol: "http/json", FilePath: t.FilePath,
			ExporterType: t.ExporterType, SourceName: t.SourceName, CaptureContent: &t.CaptureContent}
	}
	client := copilot.NewClient(&opts)
	startCtx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if err := startClient(startCtx, client); err != nil {
		client.ForceStop()
		return nil, h.explainStart(errors.Join(err, tree.Stop(context.WithoutCancel(ctx))))
	}
	h.opts.Logger.Debug("runtime.started", "profile", h.profile, "pid", tree.ProgramPID(), "took", time.Since(began))
	return &process{client: client, tree: tree, home: home, temp: temp, nudged: make(chan struct{}, 1), asking: make(chan struct{}, 1), sessions: map[*session]struct{}{}}, nil
}

// home is where a new process keeps its state. Chats are kept in
// a directory that ends with the process, however it ends, so that not even
// a killed bridge leaves any behind. The user's login is in the
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
		h.opts.Logger.Debug("chat.logs_removed: they are removed with the runtime", "error", err) // Windows allows it to some only
	}
	return at, nil
}

// temp gives the agent a private temporary directory, removed with the
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
			h.opts.Logger.Warn("runtime.not_ended", "error", err)
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
		h.opts.Logger.Warn("runtime.not_ended", "error", err)
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
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.drains.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
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

// ProgramPIDs are those of all of a profile's runtimes.
func (a *Agent) ProgramPIDs(p bridge.Profile) []int {
	a.mu.Lock()
	hosts := a.hosts[p]
	a.mu.Unlock()
	var out []int
	for _, h := range hosts {
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

// Recycle retires the runtimes of a profile that hold more than so many
// bytes, or so many times what they did when they were young (0: do not ask):
// a runtime never gives back the memory of a session. Each keeps the
// sessions that it has and ends with the last of them; the next
// session starts a new runtime. Sessions of agents leave it as soon as nothing runs
// in them, and are resumed when they are used again.
func (a *Agent) Recycle(p bridge.Profile, above int64, grown float64) (recycled bool) {
	a.mu.Lock()
	hosts := a.hosts[p]
	a.mu.Unlock()
	for _, h := range hosts {
		if proc := h.present.Load(); proc != nil && (proc.resident() > above || proc.grown(grown)) {
			recycled = true
			h.retire(proc)
		}
	}
	return recycled
}

// RuntimeState is a place for a runtime, and the runtime in it that takes new
// sessions, if there is one.
type RuntimeState struct {
	Profile  bridge.Profile
	Starts   int64 // of it and those before it
	PID      int   // 0 if there is none
	Memory   int64 // 0 where it cannot be measured
	Sessions int
}

// Runtimes tells of every place for a runtime.
func (a *Agent) Runtimes() (out []RuntimeState) {
	a.mu.Lock()
	hosts := slices.Concat(slices.Collect(maps.Values(a.hosts))...)
	a.mu.Unlock()
	for _, h := range hosts {
		s := RuntimeState{Profile: h.profile, Starts: h.starts.Load()}
		if p := h.present.Load(); p != nil {
			s.PID, s.Memory, s.Sessions = p.tree.ProgramPID(), p.resident(), len(p.attachedSessions())
		}
		out = append(out, s)
	}
	return out
}

// retire stops opening sessions in a process, which then ends by drain.
func (h *host) retire(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead || h.closed || h.proc != p {
		return
	}
	h.proc = nil
	h.present.Store(nil)
	h.retired[p] = struct{}{}
	h.drains.Go(func() { h.drain(p) })
}

const (
	// Quiet runtimes are retired after so many turns at the earliest, since
	// what they hold may be needed, and after manyTurns where memory cannot be
	// measured.
	grownTurns = 64
	manyTurns  = 1000
	// A runtime of agents is replaced when it has grown so many times, or holds
	// more than the limit after largeTurns: its sessions may need that much.
	grownAgents = 1.5
	largeTurns  = 8
	// retiredMost is how many runtimes may wait for agents that are at work in
	// them. As long as there are so many, the present one is kept.
	retiredMost = 3
	// drainEvery and drainAtMost are the pauses between two looks at what still
	// runs in a retired process.
	drainEvery  = 100 * time.Millisecond
	drainAtMost = 5 * time.Second
	// suspendWithin bounds how long a session may take to leave its runtime.
	suspendWithin = 10 * time.Second
)

// recycleGrown replaces a runtime of agents that has grown, after a turn.
func (h *host) recycleGrown(p *process) {
	if h.profile != bridge.ProfileAgent || h.present.Load() != p || !p.outgrown(h.opts.MemoryLimit) {
		return
	}
	h.mu.Lock()
	crowded := len(h.retired) >= retiredMost
	h.mu.Unlock()
	if !crowded {
		h.retire(p)
	}
}

func (p *process) outgrown(limit int64) bool {
	return p.grown(grownAgents) || limit > 0 && p.served.Load() >= largeTurns && p.resident() > limit
}

// drain ends a retired process when it has no sessions. Those of agents leave it
// as soon as nothing runs in them; chats end by themselves.
func (h *host) drain(p *process) {
	h.opts.Logger.Info("runtime.replaced", "pid", p.tree.ProgramPID(), "turns", p.served.Load(), "bytes", p.resident())
	for pause := drainEvery; ; pause = min(2*pause, drainAtMost) {
		if h.profile == bridge.ProfileAgent {
			for _, s := range p.attachedSessions() {
				s.suspend(h.ctx)
			}
		}
		h.mu.Lock()
		_, retired := h.retired[p]
		left := retired && p.idle()
		if left {
			delete(h.retired, p)
		}
		h.mu.Unlock()
		if left {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), 5*time.Second)
			defer cancel()
			if err := h.end(ctx, p, h.shutdown(ctx, p)); err != nil {
				h.opts.Logger.Warn("runtime.not_ended", "error", err)
			}
		}
		if left || !retired {
			return
		}
		select {
		case <-p.nudged:
			pause = drainEvery
		case <-time.After(pause):
		case <-h.ctx.Done():
			return
		}
	}
}

func (p *process) attachedSessions() []*session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.sessions))
}

// nudge says that a turn or session of the process has ended.
func (p *process) nudge() {
	select {
	case p.nudged <- struct{}{}:
	default:
	}
}

// suspend has the session leave its runtime if nothing runs in it: no turn, no
// command in the background, no sub-agent. Its claim stays.
func (s *session) suspend(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, suspendWithin)
	defer cancel()
	s.mu.Lock()
	free, uses := s.users == 0 && !s.suspended, s.uses
	s.mu.Unlock()
	if !free {
		return
	}
	list, err := s.sdk.RPC.Tasks.List(ctx)
	if err != nil {
		err = s.host.noticed(s.proc, s.host.explain(err, "see what runs in the session"))
		s.host.opts.Logger.Debug("session.not_suspended", "session", s.ID(), "error", err)
		return
	}
	if slices.ContainsFunc(list.Tasks, running) {
		return
	}
	s.mu.Lock()
	if s.suspended = s.users == 0 && s.uses == uses; !s.suspended {
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	if err := s.leave(ctx); err != nil {
		s.host.opts.Logger.Warn("session.not_suspended", "session", s.ID(), "error", err)
	}
}

// running says of a task that it is at work. One of a kind that is not known is
// taken to be.
func running(t rpc.TaskInfo) bool {
	switch t := t.(type) {
	case *rpc.TaskShellInfo:
		return t.Status == rpc.TaskStatusRunning
	case *rpc.TaskAgentInfo:
		return t.Status == rpc.TaskStatusRunning
	default:
		return true
	}
}

// Replaced says that the session has left its runtime, and has it do so if the
// runtime is being replaced: turns that follow each other at once would keep
// drain from it.
func (s *session) Replaced(ctx context.Context) bool {
	if s.host.profile != bridge.ProfileAgent || s.Current() {
		return false
	}
	s.suspend(ctx)
	s.mu.Lock()
	suspended := s.suspended
	s.mu.Unlock()
	if suspended {
		s.leaving.Lock() // until it has
		defer s.leaving.Unlock()
	}
	return suspended
}

// grown says that a process holds so many times what it did when it was young,
// which it will not give back.
func (p *process) grown(times float64) bool {
	held, served := p.resident(), p.served.Load()
	switch {
	case times == 0 || served < grownTurns:
		return false
	case held == 0:
		return served >= manyTurns
	}
	return float64(held) > times*float64(p.young.Load())
}

// resident is what the process has of the machine's memory; 0 if that is not
// known.
func (p *process) resident() int64 { return residentBytes(p.tree.ProgramPID()) }

// endRetired ends them all. mu is held.
func (h *host) endRetired(ctx context.Context) error {
	var errs []error
	for p := range h.retired {
		delete(h.retired, p)
		errs = append(errs, h.end(ctx, p, h.shutdown(ctx, p)))
	}
	return errors.Join(errs...)
}

// shutdown lets the process write what it holds and returns how to end it.
func (h *host) shutdown(ctx context.Context, p *process) func(context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := p.call(func(c *copilot.Client) error {
		_, err := c.RPC.Runtime.Shutdown(ctx)
		return err
	})
	if err != nil {
		h.opts.Logger.Debug("runtime.shutdown_failed", "error", err)
		return p.tree.Stop
	}
	return p.tree.Kill // it has put everything in order and waits for that
}

func (h *host) end(ctx context.Context, p *process, how func(context.Context) error) error {
	err := how(ctx)
	p.disconnect()
	p.stop()
	return errors.Join(err, p.removeDoomed())
}
