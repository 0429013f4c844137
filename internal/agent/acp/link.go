package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/environ"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
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
	// earlyUpdates is how many updates of an unknown session are kept: agents
	// announce things before they answer session/new.
	earlyUpdates = 64
)

// link is one connection to an agent, with its program if we started it.
type link struct {
	opts    *Options
	conn    *jsonrpc.Conn
	group   *program.Group // nil if the agent runs already
	words   *lastWords
	mute    chan struct{} // closed when the program's standard error has ended
	init    acpwire.InitializeResponse
	servers string       // that its program was started with, see serversOf
	forget  func()       // removes the file with them, see serverArgs
	opening atomic.Int32 // sessions that are about to be registered
	heard   atomic.Int64 // when any session last said something, in Unix nanoseconds
	wg      sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*conversation
	early    map[string][]item
}

func (a *Agent) connect(ctx context.Context, servers string) (*link, error) {
	l := &link{opts: &a.opts, servers: servers, forget: func() {}, words: &lastWords{}, sessions: map[string]*conversation{}, early: map[string][]item{}}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	began := time.Now()
	r, w, err := l.dial(ctx)
	defer func() { l.forget() }()
	if err != nil {
		return nil, l.explainStart(err)
	}
	l.conn = acpwire.NewConn(r, w, handler{l}, jsonrpc.Options{Malformed: l.noise})
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
		return nil, errors.Join(l.explainStart(l.exited(err)), l.close(context.WithoutCancel(ctx)))
	}
	a.opts.Logger.Debug("acp.connected", "took", time.Since(began), "agent", l.init.AgentInfo)
	return l, nil
}

// exited adds how the program ended to the error of a connection that has closed.
// The end of its output is often seen first.
func (l *link) exited(err error) error {
	if l.group == nil || !errors.Is(err, jsonrpc.ErrClosed) {
		return err
	}
	select {
	case <-l.group.Done():
		code, signal := l.group.Exit()
		return fmt.Errorf("%w: the program exited with code %d%s", jsonrpc.ErrClosed, code, signalled(signal))
	case <-time.After(time.Second): // it has closed its output and lives on
		return err
	}
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
	more, forget, err := l.opts.serverArgs(l.servers)
	if err != nil {
		return nil, nil, err
	}
	l.forget = forget
	c, err := program.New(program.Place{Env: env}, l.opts.Program, append(args, more...)...)
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

// quoted returns the last lines that a dead program printed. They may come a
// moment after the end of its standard output.
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
	if old := acpwire.Old(method); old != "" && jsonrpc.CodeOf(err) == jsonrpc.CodeMethodNotFound {
		if oldErr := l.conn.Call(ctx, old, params, result); jsonrpc.CodeOf(oldErr) != jsonrpc.CodeMethodNotFound {
			return oldErr
		}
	}
	return err
}

// idle says that nothing needs the link.
func (l *link) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sessions) == 0 && l.opening.Load() == 0
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
	var open []*conversation
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
	l.opts.Logger.Debug("acp.malformed_line", "error", err)
	_, _ = l.words.Write(append(append([]byte(nil), line[:min(len(line), 200)]...), '\n'))
}

func (l *link) register(s *conversation) {
	l.mu.Lock()
	l.sessions[s.ID()] = s
	early := l.early[s.ID()]
	delete(l.early, s.ID())
	l.mu.Unlock()
	for _, it := range early {
		s.hear(it)
	}
}

func (l *link) unregister(s *conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[s.ID()] == s {
		delete(l.sessions, s.ID())
	}
}

func (l *link) session(id string) *conversation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[id]
}

// update hands an update to its session, or keeps it until there is one.
func (l *link) update(n acpwire.SessionNotification) {
	l.heard.Store(time.Now().UnixNano())
	it := item{update: n.Update, raw: n.Raw}
	l.mu.Lock()
	s := l.sessions[n.SessionID]
	if s == nil && len(l.early) < earlyUpdates && len(l.early[n.SessionID]) < earlyUpdates {
		l.early[n.SessionID] = append(l.early[n.SessionID], it)
	}
	l.mu.Unlock()
	if s != nil {
		s.hear(it)
	}
}

// handler serves the agent's requests.
type handler struct{ link *link }

func (h handler) Notification(method string, params json.RawMessage) {
	if method != acpwire.NotifyUpdate {
		return
	}
	var n acpwire.SessionNotification
	if err := json.Unmarshal(params, &n); err != nil {
		h.link.opts.Logger.Debug("acp.bad_update", "error", err)
		return
	}
	h.link.update(n)
}

func (h handler) Request(ctx context.Context, method string, params json.RawMessage) func() (any, error) {
	switch method {
	case acpwire.MethodRequestPermission:
		return serve(h, params, func(s *conversation, p acpwire.PermissionRequest) func() (any, error) { return s.permission(ctx, p) })
	case acpwire.MethodReadTextFile:
		return later(ctx, h, params, (*conversation).readFile)
	case acpwire.MethodWriteTextFile:
		return later(ctx, h, params, (*conversation).writeFile)
	case acpwire.MethodTerminalCreate:
		return later(ctx, h, params, (*conversation).createTerminal)
	case acpwire.MethodTerminalOutput, acpwire.MethodTerminalWait, acpwire.MethodTerminalKill, acpwire.MethodTerminalRelease:
		return later(ctx, h, params, func(s *conversation, ctx context.Context, p acpwire.TerminalRef) (any, error) {
			return s.terminal(ctx, method, p.TerminalID)
		})
	case acpwire.MethodElicit:
		return later(ctx, h, params, (*conversation).elicit)
	}
	return nil
}

// serve decodes a request and finds its session, at once and in order.
func serve[P any](h handler, params json.RawMessage, f func(*conversation, P) func() (any, error)) func() (any, error) {
	var p P
	var to acpwire.SessionRef
	if err := errors.Join(json.Unmarshal(params, &p), json.Unmarshal(params, &to)); err != nil {
		return func() (any, error) {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the parameters are not understood: %s", err)
		}
	}
	s := h.link.session(to.SessionID)
	if s == nil {
		return func() (any, error) {
			return nil, jsonrpc.Errorf(acpwire.CodeResourceNotFound, "there is no session %s", to.SessionID)
		}
	}
	return f(s, p)
}

// later is serve for requests whose order does not matter.
func later[P any](ctx context.Context, h handler, params json.RawMessage, f func(*conversation, context.Context, P) (any, error)) func() (any, error) {
	return serve(h, params, func(s *conversation, p P) func() (any, error) {
		return func() (any, error) { return f(s, ctx, p) }
	})
}

// lastWords keeps the end of what a program prints to its standard error, to
// be quoted when it dies.
type lastWords struct {
	mu   sync.Mutex
	tail []byte
}

const keepWords = 2 << 10

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tail = append(w.tail, p...)
	if over := len(w.tail) - keepWords; over > 0 {
		w.tail = append(w.tail[:0], w.tail[over:]...)
	}
	return len(p), nil
}

// String is the last few lines, on one.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for line := range bytes.Lines(w.tail) {
		if s := strings.TrimSpace(string(line)); s != "" {
			lines = append(lines, s)
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// secretNames are the variables that Copilot must not hand to its shells.
var secretNames = []string{"COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_PROVIDER_HEADERS", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"}

// command returns the arguments and the environment of the program.
func (o *Options) command() (args, env []string, err error) {
	if !o.Copilot {
		return o.Args, environ.Plain(o.Env, true), nil
	}
	args = slices.Clone(o.Args)
	if len(args) > 0 && args[0] == "agent" {
		args = args[1:] // as older descriptions have it; the CLI refuses it
		o.Logger.Warn("the Copilot CLI has no sub-command \"agent\"; it is started without")
	}
	for _, a := range args {
		name, _, _ := strings.Cut(a, "=")
		if slices.Contains(unasked, name) {
			return nil, nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the argument " + name + " would let Copilot act without asking, past the policy",
				Remedy: "take it out of ABP_COPILOT_ACP_ARGS and ABP_COPILOT_ARGS; allow what you need in the policy file"}
		}
	}
	args = append(args, "--no-auto-update", "--disallow-temp-dir", "--no-custom-instructions", "--excluded-tools=lsp", "--secret-env-vars="+strings.Join(secretNames, ","))
	if err := os.MkdirAll(o.tmp(), 0o700); err != nil {
		return nil, nil, err
	}
	return args, o.environment(), nil
}

func (o *Options) tmp() string { return filepath.Join(o.Records, "tmp") }

// unasked are the arguments that switch permission requests off.
var unasked = []string{"--allow-all", "--yolo", "--allow-all-tools", "--allow-all-paths", "--allow-all-urls", "--allow-tool", "--allow-url",
	"--autopilot", "--assisted-approval", "--add-dir", "--trust-folder"}

// environment is Copilot's. Unlike the SDK the CLI takes the provider's key
// from there; it is told to keep it from its shells.
func (o *Options) environment() []string {
	env := slices.DeleteFunc(environ.Plain(o.Env, o.UseLogin), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"COPILOT_OFFLINE", "COPILOT_MODEL", "COPILOT_ALLOW_ALL", "COPILOT_ASSISTED_APPROVAL", "COPILOT_HOME"}, name) ||
			strings.HasPrefix(name, "COPILOT_PROVIDER_")
	})
	// Copilot trusts the temporary directory whatever its arguments say, so it
	// gets its own, without files of other programs.
	env = append(env, "TMPDIR="+o.tmp(), "TMP="+o.tmp(), "TEMP="+o.tmp())
	if o.Home != "" {
		env = append(env, "COPILOT_HOME="+o.Home)
	}
	if o.Token != "" {
		env = append(env, "COPILOT_GITHUB_TOKEN="+o.Token)
	}
	if o.Model != "" {
		env = append(env, "COPILOT_MODEL="+o.Model)
	}
	p := o.Provider
	if p == nil {
		return env
	}
	kind := p.Kind
	if kind == "ollama" {
		kind = "openai" // whose protocol it speaks
	}
	env = append(env, "COPILOT_PROVIDER_TYPE="+kind, "COPILOT_PROVIDER_BASE_URL="+p.BaseURL, "COPILOT_PROVIDER_API_KEY="+p.APIKey)
	if p.WireAPI != "" {
		env = append(env, "COPILOT_PROVIDER_WIRE_API="+p.WireAPI)
	}
	var headers []string
	for name, value := range p.Headers {
		headers = append(headers, name+": "+value)
	}
	for name, value := range map[string]string{"BEARER_TOKEN": p.BearerToken, "WIRE_MODEL": p.WireModel, "HEADERS": strings.Join(headers, "\n")} {
		if value != "" {
			env = append(env, "COPILOT_PROVIDER_"+name+"="+value)
		}
	}
	for name, most := range map[string]int{"MAX_PROMPT_TOKENS": p.MaxInputTokens, "MAX_OUTPUT_TOKENS": p.MaxOutputTokens} {
		if most > 0 {
			env = append(env, fmt.Sprintf("COPILOT_PROVIDER_%s=%d", name, most))
		}
	}
	if p.AzureAPIVersion != "" {
		env = append(env, "COPILOT_PROVIDER_AZURE_API_VERSION="+p.AzureAPIVersion)
	}
	if o.Token == "" && !o.UseLogin {
		env = append(env, "COPILOT_OFFLINE=true")
	}
	return env
}
