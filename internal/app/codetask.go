package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/mcp"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// CopilotMCP serves Copilot's tools. The runtime is started by the first task.
//
// Files are read and written through the bridge's own workspace, under the
// guard: the runtime's workspace RPCs mean a directory of the session's own,
// not the project.
func CopilotMCP(ctx context.Context, o Options, serving MCPServing) (*MCP, error) {
	return coderMCP(ctx, o, serving, "copilot", "mcp", mcp.NewCopilot)
}

// PluginMCP serves OpenClaw's plugin. Where no workspace is named it is that
// of OpenClaw's agent.
func PluginMCP(ctx context.Context, o Options, serving MCPServing) (*MCP, error) {
	if serving.Workspace == "" {
		serving.Workspace = places(o).Workspace
	}
	return coderMCP(ctx, o, serving, "plugin", "openclaw", mcp.NewPlugin)
}

func coderMCP(ctx context.Context, o Options, serving MCPServing, name, door string, serve func(mcp.Copilot, mcp.Options) *mcp.Server) (*MCP, error) {
	b := prepareMCP(o)
	if err := b.raiseWall(ctx); err != nil {
		return nil, err
	}
	root, err := filepath.EvalSymlinks(serving.Workspace)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the workspace cannot be used", Cause: err, Remedy: "name an existing directory"}
	}
	c := &coder{base: b, root: root, door: door, serving: serving, started: map[int]*Bridge{}, starting: make(chan struct{}, 1), seats: durable.NewSeats(o.Config.Path("servers"), maxServers)}
	if c.guard, err = b.Gate(Guarding{Workspace: root, Door: door, Caller: "A client of the MCP server", Asker: mcp.Asker{}, Defaults: c.defaults()}); err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	confined, err := b.confined(ctx, root, c.guard)
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	c.Workspace, err = workspace.Open(root, workspace.Options{Guard: c.guard, Sandbox: confined, Journal: journal(o.Config), Tell: b.tellOf(root), Env: task.PlainEnviron(o.Environ),
		Trees: func() (*supervise.Tree, error) { return supervise.NewTree(o.records(), o.Self) }})
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	server := serve(c, mcp.Options{Version: o.Version, Logger: o.Logger, Enter: b.enter, Depth: b.callerDepth, Consent: c.consent(), MaxWaiting: o.Config.Engine.QueueLimit})
	return &MCP{bridge: b, serving: serving, name: name, server: server, close: c.close}, nil
}

// maxServers is how many servers may have Copilot at work at the same time.
// Where the depth of a call cannot be seen, a loop through other programs,
// whose rounds wait for each other, ends there.
const maxServers = 16

// coder does what Copilot's tools promise.
type coder struct {
	*workspace.Workspace
	base    *Bridge // not started
	root    string
	door    string // its name on record
	serving MCPServing
	guard   *guard.Guard // of the workspace

	starting chan struct{}  // held while a runtime is started
	seats    *durable.Seats // of the servers on this machine
	mu       sync.Mutex
	started  map[int]*Bridge // by depth, which their processes inherit
}

// consent says whether clients may consent. Over HTTP without a token every
// program on the machine could consent to its own requests.
func (c *coder) consent() bool {
	return c.serving.HTTP == "" || c.base.opts.Config.Serve.Token != ""
}

func (c *coder) defaults() policy.Defaults {
	if c.serving.HTTP == "" || c.serving.ReadWrite {
		return policy.DefaultsRun()
	}
	d := policy.DefaultsServe()
	d.ReadOnlyAsks = c.consent()
	return d
}

func (c *coder) close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{c.Close(ctx)}
	for _, b := range c.started {
		errs = append(errs, b.Close(ctx))
	}
	return errors.Join(errs...)
}

// Place resolves a directory to work in. It must be in the workspace, and one
// in which work may be done at all: the rules of the workspace hold there as
// everywhere below its root.
func (c *coder) Place(dir string) (string, error) {
	at, err := c.guard.WorkingDir(dir)
	if err != nil {
		return "", err
	}
	// A policy further down was written for the workspace that it is the root
	// of. It is not in force here, so no work is done below it.
	for below := at; below != c.root && below != filepath.Dir(below); below = filepath.Dir(below) {
		if file, err := policy.LoadWorkspace(below); err != nil || file != nil {
			return "", &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("%s has a policy of its own, which is not in force in the workspace %s", below, c.root), Cause: err,
				Remedy: "work in another directory, or start another server with --workspace " + below}
		}
	}
	return at, nil
}

// begin starts a bridge for a task at a depth, or returns the one that was.
// The caller calls end when the task is done.
func (c *coder) begin(ctx context.Context, depth int) (b *Bridge, end func(), err error) {
	leave, ok, err := c.seats.Take()
	if err == nil && !ok {
		err = &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("%d servers have Copilot at work on this machine already", maxServers),
			Remedy: "try again later; if an agent calls itself through others, end that"}
	}
	if err != nil {
		return nil, nil, err
	}
	if b, err = c.bridgeAt(ctx, depth); err != nil {
		leave()
		return nil, nil, err
	}
	return b, leave, nil
}

func (c *coder) bridgeAt(ctx context.Context, depth int) (*Bridge, error) {
	select {
	case c.starting <- struct{}{}:
		defer func() { <-c.starting }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	depth = max(depth, c.base.depth)
	c.mu.Lock()
	b := c.started[depth]
	c.mu.Unlock()
	if b != nil {
		return b, nil
	}
	o := c.base.opts
	o.Environ = append(slices.Clone(o.Environ), guard.DepthVariable+"="+strconv.Itoa(depth))
	b, err := Start(ctx, o)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.started[depth] = b
	c.mu.Unlock()
	return b, nil
}

func (c *coder) CodeTask(ctx context.Context, t mcp.Task) (out mcp.TaskResult, err error) {
	b, end, err := c.begin(ctx, t.Depth)
	if err != nil {
		return mcp.TaskResult{}, err
	}
	defer end()
	if t.TimeoutMs > 0 {
		var cancel context.CancelFunc
		limit := time.Duration(t.TimeoutMs) * time.Millisecond
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("the task took longer than %s", limit), Remedy: "give it more time, or less to do"})
		defer cancel()
		defer func() {
			if cause := context.Cause(ctx); err != nil && ctx.Err() != nil && bridge.CodeOf(cause) == bridge.CodeTimeout {
				err = cause
			}
		}()
	}
	if t.Worker != "" {
		return c.codeTaskOnWorker(ctx, b, t)
	}
	return c.codeTaskHere(ctx, b, t)
}

// codeTaskOnWorker has a worker of the fleet do the task. The worker gets the
// whole workspace, whose policy speaks of it, and is told the directory.
func (c *coder) codeTaskOnWorker(ctx context.Context, b *Bridge, t mcp.Task) (mcp.TaskResult, error) {
	labels, err := workerLabels(t.Worker, t.Depth)
	if err != nil {
		return mcp.TaskResult{}, err
	}
	w := b.fleetWork(labels)
	if t.Model != "" {
		w.model = t.Model
	}
	if rel, err := filepath.Rel(c.root, t.Dir); err == nil && rel != "." {
		t.Prompt = "Work in the directory " + filepath.ToSlash(rel) + ".\n\n" + t.Prompt
	}
	r, err := b.doOnWorker(ctx, single{Guarding: Guarding{Workspace: c.root, Door: c.door, Asker: t.Asker, Defaults: c.defaults()}, fleetWork: w, prompt: t.Prompt,
		watch: func(line string) { t.Watch(bridge.Notice{Level: "note", Text: line}) }})
	if err != nil {
		return mcp.TaskResult{}, err
	}
	return taskResult(r), nil
}

// workerLabels reads which worker is to do a task. What runs on a worker is one
// deep in a bridge, but the depth does not cross machines: only a task from outside
// may go to one, so that none can go round in circles.
func workerLabels(worker string, depth int) ([]string, error) {
	if depth > 0 {
		return nil, &bridge.Error{Code: bridge.CodeDenied, Message: "a task that comes from a session of Copilot is done on its own machine", Remedy: "leave worker out"}
	}
	return fleet.ParseWorker(worker)
}

func (c *coder) codeTaskHere(ctx context.Context, b *Bridge, t mcp.Task) (mcp.TaskResult, error) {
	spec := b.Spec(bridge.ProfileAgent, t.Dir)
	if t.Model != "" && b.Answers.Kind != bridge.AnswersDemo {
		spec.Model = t.Model
	}
	g := Guarding{Workspace: c.root, Dir: t.Dir, Door: c.door, Asker: t.Asker, Defaults: c.defaults()}
	gate, err := b.Gate(g)
	if err != nil {
		return mcp.TaskResult{}, err
	}
	spec.Gate, spec.Person = gate, b.Person(g, gate, t.Person)
	before := c.Snapshot(ctx, t.Dir)
	r, err := b.Engine.RunTask(ctx, engine.Task{Prompt: bridge.Prompt{Text: t.Prompt}, Request: engine.Request{Spec: spec, Door: c.door, Keep: true}}, t.Watch)
	if err == nil && r.Reason == bridge.EndAborted {
		err = &bridge.Error{Code: bridge.CodeCanceled, Message: "the task was aborted"}
	}
	if err != nil {
		return mcp.TaskResult{}, err
	}
	r.Files = c.changed(r.Files, c.Changed(before, c.Snapshot(ctx, t.Dir)))
	return taskResult(r), nil
}

// changed joins the files that tools have named with those that commands have
// left behind: relative to the workspace, if they are inside.
func (c *coder) changed(named, found []string) []string {
	for _, name := range named {
		if rel, err := filepath.Rel(c.root, name); filepath.IsAbs(name) && err == nil && filepath.IsLocal(rel) {
			name = filepath.ToSlash(rel)
		}
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}

func taskResult(r engine.Result) mcp.TaskResult {
	out := mcp.TaskResult{Text: r.Text, Files: r.Files, ToolCalls: []mcp.ToolUse{}, Session: r.Session, Reason: string(r.Reason), DurationMs: r.Duration.Milliseconds(), Notice: r.Notice,
		Usage: usage(r.Usage), Answers: r.Answers}
	for _, u := range r.Tools {
		out.ToolCalls = append(out.ToolCalls, mcp.ToolUse{Name: u.Name, Arguments: object(u.Args), OK: u.OK, Denied: u.Denied, Error: u.Error, DurationMs: u.Duration.Milliseconds()})
	}
	return out
}

// object is a tool's arguments, which are one but for odd tools.
func object(args any) map[string]any {
	m, ok := args.(map[string]any)
	if !ok && args != nil {
		m = map[string]any{"input": args}
	}
	return m
}
