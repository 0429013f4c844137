package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

const (
	// startWithin bounds the time from the start of a program to its answer to
	// initialize.
	startWithin = time.Minute
	// endWithin is how long a program may take to go by itself.
	endWithin = 2 * time.Second
	// wordsWithin is how long the last words of a dead program are waited for.
	wordsWithin = 300 * time.Millisecond
	// earlyUpdates is how many updates of a session are kept that nobody knows
	// yet: agents announce things before they answer session/new.
	earlyUpdates = 64
)

// link is one connection to an agent, with its program if we started it.
type link struct {
	opts  *Options
	conn  *acpwire.Conn
	group *program.Group // nil if somebody else runs the agent
	words *lastWords
	mute  chan struct{} // closed when the program's standard error has ended
	init  acpwire.InitializeResponse
	heard atomic.Int64 // when any session last said something, in Unix nanoseconds
	wg    sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session
	early    map[string][]acpwire.Update
}

func (a *Agent) connect(ctx context.Context) (*link, error) {
	l := &link{opts: &a.opts, words: &lastWords{log: a.opts.Logger}, sessions: map[string]*session{}, early: map[string][]acpwire.Update{}}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	began := time.Now()
	r, w, err := l.dial(ctx)
	if err != nil {
		return nil, l.explainStart(err)
	}
	l.conn = acpwire.NewConn(r, w, handler{l}, acpwire.Options{Malformed: l.noise})
	l.wg.Go(func() { _ = l.conn.Run(context.Background()) }) // why it ended is asked of the connection
	if l.group != nil {
		l.wg.Go(func() {
			select {
			case <-l.group.Done():
				code, signal := l.group.Exit()
				l.conn.Fail(fmt.Errorf("the program exited with code %d%s", code, signalled(signal)))
			case <-l.conn.Done():
			}
		})
	}
	if err := l.initialize(ctx); err != nil {
		return nil, errors.Join(l.explainStart(err), l.close(context.WithoutCancel(ctx)))
	}
	a.opts.Logger.Debug("ACP agent connected", "took", time.Since(began), "agent", l.init.AgentInfo)
	return l, nil
}

func signalled(s string) string {
	if s == "" {
		return ""
	}
	return " by signal " + s
}

// dial reaches the agent: an address where one listens, or a program.
func (l *link) dial(ctx context.Context) (io.Reader, io.Writer, error) {
	if l.opts.Address == "" {
		return l.start()
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", l.opts.Address)
	if err == nil {
		return conn, conn, nil
	}
	if l.opts.Program == "" {
		return nil, nil, err
	}
	r, w, err := l.start()
	if err != nil {
		return nil, nil, err
	}
	// It speaks over TCP; what it prints is for the log. It is not told to go
	// by the end of its standard input before we go.
	l.wg.Go(func() { _, _ = io.Copy(l.words, r); _ = w.Close() })
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err = d.DialContext(ctx, "tcp", l.opts.Address); err == nil {
			return conn, conn, nil
		}
		select {
		case <-tick.C:
		case <-l.group.Done():
			code, _ := l.group.Exit()
			err = fmt.Errorf("the program exited with code %d", code)
		case <-ctx.Done():
			err = fmt.Errorf("nobody listens at %s: %w", l.opts.Address, context.Cause(ctx))
		}
		if err != nil && (ctx.Err() != nil || gone(l.group)) {
			return nil, nil, errors.Join(err, l.stop(context.WithoutCancel(ctx)))
		}
	}
}

func gone(g *program.Group) bool {
	select {
	case <-g.Done():
		return true
	default:
		return false
	}
}

// start starts the program under supervision, with pipes for its streams.
func (l *link) start() (r *os.File, w *os.File, err error) {
	args, env, err := l.opts.command()
	if err != nil {
		return nil, nil, err
	}
	c, err := program.New(program.Place{Env: env}, l.opts.Program, args...)
	if err != nil {
		return nil, nil, err
	}
	p, err := c.Pipe(func() (*supervise.Tree, error) { return supervise.NewTree(l.opts.Records, l.opts.Self) })
	if err != nil {
		return nil, nil, err
	}
	l.group = p.Group
	l.mute = make(chan struct{})
	l.wg.Go(func() {
		defer close(l.mute)
		_, _ = io.Copy(l.words, p.Err)
		_ = p.Err.Close() // only read from
	})
	return p.Out, p.In, nil
}

// quoted are the last words of a program that has gone. They may come a moment
// after the end of its standard output.
func (l *link) quoted() string {
	if l.mute != nil {
		late := time.NewTimer(wordsWithin)
		defer late.Stop()
		select {
		case <-l.mute:
		case <-late.C:
		}
	}
	return l.scrubText(l.words.String())
}

// initialize agrees on the version. An agent answers with the newest that it
// speaks; there is but one.
func (l *link) initialize(ctx context.Context) error {
	req := acpwire.InitializeRequest{ProtocolVersion: acpwire.ProtocolVersion, ClientInfo: &acpwire.Implementation{
		Name: "copilot-bridge", Title: "Copilot Bridge", Version: l.opts.Version}}
	req.Capabilities = acpwire.ClientCapabilities{FS: acpwire.FSCapabilities{Read: true, Write: true}, Terminal: true,
		Session:     json.RawMessage(`{"notices":{},"compaction":{}}`),
		Elicitation: &acpwire.ElicitationAbleness{Form: acpwire.Able{}, URL: acpwire.Able{}}}
	if req.ClientInfo.Version == "" {
		req.ClientInfo.Version = "dev"
	}
	if err := l.call(ctx, acpwire.MethodInitialize, req, &l.init); err != nil {
		return err
	}
	if v := l.init.ProtocolVersion; v != acpwire.ProtocolVersion {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: fmt.Sprintf("the ACP agent speaks version %d of the protocol, not %d", v, acpwire.ProtocolVersion),
			Remedy: "install the pinned Copilot CLI with `copilot-bridge setup --acp`"}
	}
	return nil
}

// call sends a request, and again by its old name to an agent that does not
// know the new one.
func (l *link) call(ctx context.Context, method string, params, result any) error {
	err := l.conn.Call(ctx, method, params, result)
	if old := acpwire.Old(method); old != "" && acpwire.CodeOf(err) == acpwire.CodeMethodNotFound {
		if oldErr := l.conn.Call(ctx, old, params, result); acpwire.CodeOf(oldErr) != acpwire.CodeMethodNotFound {
			return oldErr
		}
	}
	return err
}

func (l *link) alive() bool {
	select {
	case <-l.conn.Done():
		return false
	default:
		return true
	}
}

// close ends the connection, the program, and everything below it.
func (l *link) close(ctx context.Context) error {
	if l.conn != nil {
		l.conn.Fail(errClosing)
	}
	l.mu.Lock()
	var open []*session
	for _, s := range l.sessions {
		open = append(open, s)
	}
	l.mu.Unlock()
	for _, s := range open {
		s.release(ctx)
	}
	return l.stop(ctx)
}

func (l *link) stop(ctx context.Context) error {
	var err error
	if l.group != nil {
		err = l.group.End(ctx, endWithin)
	}
	l.wg.Wait()
	return err
}

var errClosing = errors.New("the bridge has ended the connection")

// noise is a line of the agent's that is no message; some print their logs.
func (l *link) noise(line []byte, err error) {
	l.opts.Logger.Debug("the ACP agent wrote a line that is no message", "error", err)
	_, _ = l.words.Write(append(append([]byte(nil), line[:min(len(line), 200)]...), '\n'))
}

func (l *link) register(s *session) {
	l.mu.Lock()
	l.sessions[s.id] = s
	early := l.early[s.id]
	delete(l.early, s.id)
	l.mu.Unlock()
	for _, u := range early {
		s.hear(u)
	}
}

func (l *link) unregister(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[s.id] == s {
		delete(l.sessions, s.id)
	}
}

func (l *link) session(id string) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[id]
}

// update hands an update to its session, or keeps it until there is one.
func (l *link) update(n acpwire.SessionNotification) {
	l.heard.Store(time.Now().UnixNano())
	l.mu.Lock()
	s := l.sessions[n.SessionID]
	if s == nil && len(l.early) < earlyUpdates && len(l.early[n.SessionID]) < earlyUpdates {
		l.early[n.SessionID] = append(l.early[n.SessionID], n.Update)
	}
	l.mu.Unlock()
	if s != nil {
		s.hear(n.Update)
	}
}
