package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// rig is what one experiment works with.
type rig struct {
	opts  Options
	dir   string
	model *rehearsal.Server
	facts []fact

	mu       sync.Mutex
	runtimes []*runtime
	next     int
}

func (r *rig) start(ctx context.Context) error {
	r.model = rehearsal.New()
	return r.model.Start(ctx)
}

func (r *rig) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, rt := range r.runtimes {
		errs = append(errs, rt.kill())
	}
	return errors.Join(append(errs, r.model.Close())...)
}

// saw adds a fact.
func (r *rig) saw(what, format string, args ...any) {
	r.facts = append(r.facts, fact{What: what, Seen: fmt.Sprintf(format, args...)})
}

// yesNo adds a fact that is true or not.
func (r *rig) yesNo(what string, seen bool) {
	r.saw(what, "%s", map[bool]string{true: "yes", false: "no"}[seen])
}

// folder makes a directory of the experiment.
func (r *rig) folder(name string) (string, error) {
	r.mu.Lock()
	r.next++
	dir := filepath.Join(r.dir, fmt.Sprintf("%s-%d", name, r.next))
	r.mu.Unlock()
	return dir, os.MkdirAll(dir, 0o700)
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
func (r *rig) runtime(ctx context.Context, home string, change ...func(*copilot.ClientOptions)) (*runtime, error) {
	return r.runtimeIn(ctx, home, r.environment(), change...)
}

// runtimeIn is runtime with an environment of its own.
func (r *rig) runtimeIn(ctx context.Context, home string, environ []string, change ...func(*copilot.ClientOptions)) (*runtime, error) {
	if home == "" {
		var err error
		if home, err = r.folder("home"); err != nil {
			return nil, err
		}
	}
	tree, err := supervise.NewTree(filepath.Join(r.dir, "run"), r.opts.Self)
	if err != nil {
		return nil, err
	}
	path, args, env := tree.Command(r.opts.Runtime)
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
	if err := rt.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the runtime: %w", err)
	}
	return rt, nil
}

// environment keeps the runtime from reaching anything but the model, and its
// temporary files, which it never removes, in a place that goes.
func (r *rig) environment() []string {
	env := slices.DeleteFunc(slices.Clone(r.opts.Env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "COPILOT_") || strings.HasPrefix(name, "GITHUB_") || strings.HasPrefix(name, "GH_") ||
			strings.HasPrefix(name, "OTEL_") || strings.HasSuffix(name, "_API_KEY")
	})
	return append(env, "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_BASE_URL="+r.model.URL(),
		"COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL="+r.model.Model(), "TMPDIR="+r.dir, "TMP="+r.dir, "TEMP="+r.dir)
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

// leave ends it in good order: what it holds is written.
func (rt *runtime) leave(ctx context.Context) error {
	_, err := rt.client.RPC.Runtime.Shutdown(ctx)
	return errors.Join(err, rt.kill())
}

// config is a session on the rehearsal model that allows everything.
func (r *rig) config(l *events) (*copilot.SessionConfig, error) {
	dir, err := r.folder("work")
	if err != nil {
		return nil, err
	}
	return &copilot.SessionConfig{
		ClientName: "probe", Model: r.model.Model(), Provider: r.provider(), Streaming: copilot.Bool(true),
		WorkingDirectory: dir, OnEvent: l.add, OnPermissionRequest: approve,
	}, nil
}

func (r *rig) provider() *copilot.ProviderConfig {
	return &copilot.ProviderConfig{Type: "openai", BaseURL: r.model.URL(), APIKey: r.model.Key()}
}

func approve(copilot.PermissionRequest, copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
	return &rpc.PermissionDecisionApproveOnce{}, nil
}

// session is a session and what it said.
type session struct {
	*copilot.Session
	*events
	dir string
}

func (r *rig) open(ctx context.Context, rt *runtime, change ...func(*copilot.SessionConfig)) (*session, error) {
	l := newEvents()
	c, err := r.config(l)
	if err != nil {
		return nil, err
	}
	for _, f := range change {
		f(c)
	}
	s, err := rt.client.CreateSession(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	rt.keep(s)
	return &session{Session: s, events: l, dir: c.WorkingDirectory}, nil
}

func (rt *runtime) keep(s *copilot.Session) {
	rt.mu.Lock()
	rt.sessions = append(rt.sessions, s)
	rt.mu.Unlock()
}

// reopen resumes a session; change may see every field.
func (r *rig) reopen(ctx context.Context, rt *runtime, id, dir string, change ...func(*copilot.ResumeSessionConfig)) (*session, error) {
	l := newEvents()
	c := &copilot.ResumeSessionConfig{ClientName: "probe", Provider: r.provider(), Model: r.model.Model(), Streaming: copilot.Bool(true),
		WorkingDirectory: dir, OnEvent: l.add, OnPermissionRequest: approve}
	for _, f := range change {
		f(c)
	}
	s, err := rt.client.ResumeSession(ctx, id, c)
	if err != nil {
		return nil, fmt.Errorf("resume a session: %w", err)
	}
	rt.keep(s)
	return &session{Session: s, events: l, dir: dir}, nil
}
