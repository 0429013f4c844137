package capabilities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// probe is one experiment. Its facts are the same in every run, so that a
// runtime which behaves differently is noticed.
type probe struct {
	id string
	do func(*rig)
}

// probes are in the order of the questions.
var probes = []probe{
	{"permission-shapes", permissionShapes},
	{"permission-silence", permissionSilence},
	{"input-silence", inputSilence},
	{"shared-home", sharedHome},
	{"home-layout", homeLayout},
	{"auth-matrix", authMatrix},
	{"resume", resume},
	{"ignorable-events", ignorableEvents},
	{"pending-work", pendingWork},
	{"byok-models", byokModels},
	{"subagent-hooks", subagentHooks},
	{"redaction", redaction},
	{"abort-shell", abortShell},
	{"mcp-lifetime", mcpLifetime},
	{"retries", retries},
	{"workspace-loading", loading},
}

const (
	patience    = 2 * time.Minute  // for one probe
	silence     = 3 * time.Second  // for something that is not expected
	expectation = 30 * time.Second // for something that is; a busy machine is slow
)

// run makes the experiment. Everything that it starts has ended when it
// returns.
func (p probe) run(t *testing.T) (f capabilities.Finding) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "copilot-bridge-probe-") // t.TempDir is too long for the name of a socket
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{ctx: ctx, lab: &lab{program: runtimetest.Path(t), dir: dir, model: demomodel.New()}}
	defer func() {
		if err := errors.Join(r.close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	}()
	if err := r.model.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := try(func() { p.do(r) }); err != nil {
		t.Fatal(err)
	}
	return capabilities.Finding{Probe: p.id, Facts: r.facts}
}

// failure is the panic by which a probe gives up. try recovers it.
type failure struct{ err error }

// check gives up if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// try runs f and returns the error with which it gave up.
func try(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.err
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// together runs f for 0 to n-1 at once and gives up if one does.
func together(n int, f func(i int)) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = try(func() { f(i) }) })
	}
	wg.Wait()
	check(errors.Join(errs...))
}

// lab is what the parts of one experiment share.
type lab struct {
	program string // the native runtime
	dir     string
	model   *demomodel.Server

	mu       sync.Mutex
	runtimes []*runtime
	next     int
}

// rig is an experiment, or a part of one with separate facts. Its methods give
// up on errors.
type rig struct {
	ctx context.Context
	*lab
	facts []capabilities.Fact
}

func (r *rig) part(ctx context.Context) *rig { return &rig{ctx: ctx, lab: r.lab} }

func (l *lab) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, rt := range l.runtimes {
		errs = append(errs, rt.kill())
	}
	return errors.Join(append(errs, l.model.Close())...)
}

// saw adds a fact.
func (r *rig) saw(what, format string, args ...any) {
	r.facts = append(r.facts, capabilities.Fact{What: what, Seen: fmt.Sprintf(format, args...)})
}

// yesNo adds a fact that is true or not.
func (r *rig) yesNo(what string, seen bool) {
	r.saw(what, "%s", map[bool]string{true: "yes", false: "no"}[seen])
}

// folder makes a directory of the experiment.
func (l *lab) folder(name string) string {
	l.mu.Lock()
	l.next++
	dir := filepath.Join(l.dir, fmt.Sprintf("%s-%d", name, l.next))
	l.mu.Unlock()
	check(os.MkdirAll(dir, 0o700))
	return dir
}

// runtime is one process of the runtime and the SDK's client for it.
type runtime struct {
	client *copilot.Client
	tree   *supervise.Tree
	home   string

	once     sync.Once
	err      error
	mu       sync.Mutex
	sessions []*copilot.Session
}

// runtime starts a process on a home; "" makes a new one.
func (r *rig) runtime(home string, change ...func(*copilot.ClientOptions)) *runtime {
	return r.runtimeIn(home, r.environment(), change...)
}

// runtimeIn is runtime with a given environment.
func (r *rig) runtimeIn(home string, environ []string, change ...func(*copilot.ClientOptions)) *runtime {
	if home == "" {
		home = r.folder("home")
	}
	tree := must(supervise.NewTree(filepath.Join(r.dir, "run"), must(os.Executable())))
	path, args, env := tree.Command(r.program)
	o := copilot.ClientOptions{
		Connection: copilot.StdioConnection{Path: path, Args: args}, BaseDirectory: home, LogLevel: "error",
		Env: slices.Concat(environ, env), UseLoggedInUser: copilot.Bool(false), Mode: copilot.ModeCopilotCli,
	}
	for _, f := range change {
		f(&o)
	}
	rt := &runtime{client: copilot.NewClient(&o), tree: tree, home: home}
	r.mu.Lock()
	r.runtimes = append(r.runtimes, rt)
	r.mu.Unlock()
	check(rt.client.Start(r.ctx))
	return rt
}

// environment keeps the runtime from reaching anything but the model, and its
// temporary files, which it never removes, in a place that goes.
func (l *lab) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "COPILOT_") || strings.HasPrefix(name, "GITHUB_") || strings.HasPrefix(name, "GH_") ||
			strings.HasPrefix(name, "OTEL_") || strings.HasSuffix(name, "_API_KEY")
	})
	return append(env, "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_BASE_URL="+l.model.URL(),
		"COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL="+l.model.Model(), "TMPDIR="+l.dir, "TMP="+l.dir, "TEMP="+l.dir)
}

// alone is an environment without a login, in which GitHub cannot be reached
// but the model can: whatever needs GitHub fails at once.
func (r *rig) alone() []string {
	env := slices.DeleteFunc(r.environment(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "COPILOT_") || name == "HOME" || name == "XDG_CONFIG_HOME" || strings.HasSuffix(strings.ToLower(name), "_proxy")
	})
	nowhere := "http://" + r.deadPort()
	return append(env, "HOME="+r.folder("nobody"), "HTTPS_PROXY="+nowhere, "https_proxy="+nowhere, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
}

// deadPort is an address on this machine where nothing listens.
func (r *rig) deadPort() string {
	var lc net.ListenConfig
	l := must(lc.Listen(r.ctx, "tcp", "127.0.0.1:0"))
	check(l.Close())
	return l.Addr().String()
}

// kill ends the process with all that it started, at once, as a crash would.
func (rt *runtime) kill() error {
	rt.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		rt.err = rt.tree.Kill(ctx)
		rt.mu.Lock()
		defer rt.mu.Unlock()
		for _, s := range rt.sessions {
			_ = s.Disconnect() // ends the SDK's goroutine; the process is gone
		}
		rt.client.ForceStop()
	})
	return rt.err
}

// shutDown asks the runtime to end in good order.
func (r *rig) shutDown(rt *runtime) { must(rt.client.RPC.Runtime.Shutdown(r.ctx)) }

// leave ends it in good order: what it holds is written.
func (r *rig) leave(rt *runtime) {
	r.shutDown(rt)
	check(rt.kill())
}

// session is a session and its events.
type session struct {
	*copilot.Session
	*events
	ctx context.Context
	dir string
}

// open opens a session on the demo model that allows everything.
func (r *rig) open(rt *runtime, change ...func(*copilot.SessionConfig)) *session {
	l := newEvents()
	c := &copilot.SessionConfig{ClientName: "probe", Model: r.model.Model(), Provider: r.provider(), Streaming: copilot.Bool(true),
		WorkingDirectory: r.folder("work"), OnEvent: l.add, OnPermissionRequest: approve}
	for _, f := range change {
		f(c)
	}
	return rt.opened(r, l, c.WorkingDirectory, must(rt.client.CreateSession(r.ctx, c)))
}

// reopen resumes a session; change may see every field.
func (r *rig) reopen(rt *runtime, id, dir string, change ...func(*copilot.ResumeSessionConfig)) *session {
	l := newEvents()
	c := &copilot.ResumeSessionConfig{ClientName: "probe", Provider: r.provider(), Model: r.model.Model(), Streaming: copilot.Bool(true),
		WorkingDirectory: dir, OnEvent: l.add, OnPermissionRequest: approve}
	for _, f := range change {
		f(c)
	}
	return rt.opened(r, l, dir, must(rt.client.ResumeSession(r.ctx, id, c)))
}

func (rt *runtime) opened(r *rig, l *events, dir string, s *copilot.Session) *session {
	rt.mu.Lock()
	rt.sessions = append(rt.sessions, s)
	rt.mu.Unlock()
	return &session{Session: s, events: l, ctx: r.ctx, dir: dir}
}

func (l *lab) provider() *copilot.ProviderConfig {
	return &copilot.ProviderConfig{Type: "openai", BaseURL: l.model.URL(), APIKey: l.model.Key()}
}

func approve(copilot.PermissionRequest, copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
	return &rpc.PermissionDecisionApproveOnce{}, nil
}

// ownTool is a tool of the client; without a handler its calls wait.
func ownTool(handler copilot.ToolHandler) []copilot.Tool {
	return []copilot.Tool{{Name: "own_tool", Description: "a tool of the client", Parameters: map[string]any{"type": "object", "properties": map[string]any{}},
		SkipPermission: handler == nil, Handler: handler}}
}

// asked says whether a request to the model after the first n has the text.
func (l *lab) asked(n int, text string) bool {
	reqs := l.model.Requests()
	return slices.ContainsFunc(reqs[min(n, len(reqs)):], func(q demomodel.Request) bool { return bytes.Contains(q.Raw, []byte(text)) })
}

// lastAsked says whether the last request to the model has the text.
func (l *lab) lastAsked(text string) bool { return l.asked(len(l.model.Requests())-1, text) }

// helper is this test binary as an MCP server whose one tool, helper-pid, tells its
// process id.
func (l *lab) helper(c *copilot.SessionConfig) {
	c.MCPServers = map[string]copilot.MCPServerConfig{"helper": copilot.MCPStdioServerConfig{Command: must(os.Executable()), Args: []string{serverVerb}, Tools: []string{"*"}, Timeout: 10000}}
}

func serveMCP(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "probe", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "pid", Description: "tells the server's process id"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "pid=" + strconv.Itoa(os.Getpid())}}}, nil, nil
		})
	return s.Run(ctx, &mcp.StdioTransport{})
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return p.Signal(syscall.Signal(0)) == nil
}

// poll asks every 20 ms until it is so, or the time is over.
func (r *rig) poll(d time.Duration, so func() bool) bool {
	ctx, cancel := context.WithTimeout(r.ctx, d)
	defer cancel()
	for !so() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// dies waits for a process to end.
func (r *rig) dies(pid int, d time.Duration) bool {
	return r.poll(d, func() bool { return !alive(pid) })
}

func listed(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}
