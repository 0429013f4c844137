package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/mcp"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
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
	gate, err := b.Gate(Guarding{Workspace: root, Door: door, Caller: "A client of the MCP server", Asker: mcp.Asker{}, Defaults: c.defaults()})
	g, ok := gate.(*guard.Guard)
	if err != nil || !ok {
		return nil, errors.Join(unguarded(err), b.Close(ctx))
	}
	c.guard = g
	confined, err := b.confined(ctx, root, g)
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	c.ws, err = workspace.Open(ctx, root, workspace.Options{Guard: g, Sandbox: confined, Journal: o.Config.Path("patches"), Env: task.PlainEnviron(o.Environ),
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
	base    *Bridge // not started
	root    string
	door    string // its name on record
	serving MCPServing
	ws      *workspace.Workspace
	guard   *guard.Guard // of the workspace

	starting chan struct{}  // held by whoever starts a runtime
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
	errs := []error{c.ws.Close(ctx)}
	for _, b := range c.started {
		errs = append(errs, b.Close(ctx))
	}
	return errors.Join(errs...)
}

func (c *coder) ReadFile(ctx context.Context, path string) (mcp.File, error) {
	f, err := c.ws.Read(ctx, path, files.ReadOptions{})
	return mcp.File{Path: f.Path, Content: f.Content.Content, Encoding: string(f.Encoding), SHA256: f.SHA256, Size: f.Size, Truncated: f.Truncated, Redacted: f.Redacted}, err
}

func (c *coder) CreateFile(ctx context.Context, path, content string, overwrite bool) (mcp.Created, error) {
	f, err := c.ws.Create(ctx, path, content, overwrite)
	return mcp.Created(f), err
}

func (c *coder) ListFiles(ctx context.Context, directory string) (mcp.Files, error) {
	o := files.ListOptions{}
	if dir := filepath.ToSlash(filepath.Clean(directory)); directory != "" && dir != "." {
		if !filepath.IsLocal(filepath.FromSlash(dir)) {
			return mcp.Files{}, &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("%.200q is outside the workspace", directory), Remedy: "name a directory relative to the workspace"}
		}
		if info, err := os.Stat(filepath.Join(c.root, dir)); err != nil || !info.IsDir() {
			return mcp.Files{}, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("there is no directory %.200q", directory), Remedy: "list the workspace to see what there is"}
		}
		o.Glob = []string{"/" + literal.Replace(dir) + "/**"}
	}
	l, err := c.ws.List(ctx, o)
	return mcp.Files{Files: l.Files, Truncated: l.Truncated}, err
}

// literal quotes what is special in a glob.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`)

// Place resolves a directory to work in. It must be in the workspace, and one
// in which work may be done at all: the rules of the workspace hold there as
// everywhere below its root.
func (c *coder) Place(dir string) (string, error) {
	at, err := c.guard.WorkingDir(dir)
	if err != nil {
		return "", err
	}
	// A policy further down was written for the workspace that it is the root
	// of. It is not in force here, so nobody works below it.
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

func (c *coder) CodeTask(ctx context.Context, t mcp.Task) (mcp.TaskResult, error) {
	b, end, err := c.begin(ctx, t.Depth)
	if err != nil {
		return mcp.TaskResult{}, err
	}
	defer end()
	spec := b.Spec(bridge.ProfileAgent, t.Dir)
	if t.Model != "" && b.Answers.Kind != AnswersRehearsal {
		spec.Model = t.Model
	}
	if spec.Gate, err = b.Gate(Guarding{Workspace: c.root, Dir: t.Dir, Door: c.door, Asker: t.Asker, Defaults: c.defaults()}); err != nil {
		return mcp.TaskResult{}, err
	}
	if t.TimeoutMs > 0 {
		var cancel context.CancelFunc
		limit := time.Duration(t.TimeoutMs) * time.Millisecond
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("the task took longer than %s", limit), Remedy: "give it more time, or less to do"})
		defer cancel()
	}
	r, err := b.Engine.RunTask(ctx, engine.Task{Prompt: bridge.Prompt{Text: t.Prompt}, Request: engine.Request{Spec: spec, Door: c.door, Keep: true}}, t.Watch)
	if err == nil && r.Reason == bridge.EndAborted {
		err = &bridge.Error{Code: bridge.CodeCanceled, Message: "the task was aborted"}
	}
	if err != nil {
		if cause := context.Cause(ctx); ctx.Err() != nil && bridge.CodeOf(cause) == bridge.CodeTimeout {
			err = cause
		}
		return mcp.TaskResult{}, err
	}
	return taskResult(r), nil
}

func taskResult(r engine.Result) mcp.TaskResult {
	out := mcp.TaskResult{Text: r.Text, Files: r.Files, ToolCalls: []mcp.ToolUse{}, Session: r.Session, Reason: string(r.Reason), DurationMs: r.Duration.Milliseconds(), Notice: r.Notice,
		Usage: usage(r.Usage)}
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
