package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// tasks does what the tools that start Copilot promise, whatever they are
// called: one at a time in each directory.
type tasks struct {
	server  *Server
	copilot Copilot
	queue   *lanes
}

// begin waits for the directory. The caller calls end when it is done.
func (t *tasks) begin(ctx context.Context, req *sdk.CallToolRequest, workingDir string) (dir string, p *progress, end func(), err error) {
	dir, err = t.copilot.Place(workingDir)
	if err != nil {
		return "", nil, nil, err
	}
	p = t.server.progress(ctx, req)
	leave, err := t.queue.enter(ctx, dir, func(ahead int) { p.say(fmt.Sprintf("waiting: %d ahead in this directory", ahead)) })
	if err != nil {
		p.stop()
		return "", nil, nil, err
	}
	p.say("starting Copilot")
	return dir, p, func() {
		leave()
		p.stop()
	}, nil
}

// code runs a coding task; watch turns its events into reports.
func (t *tasks) code(ctx context.Context, req *sdk.CallToolRequest, in codeTaskInput, watch func(*progress, bridge.Event)) (TaskResult, error) {
	dir, p, end, err := t.begin(ctx, req, in.WorkingDir)
	if err != nil {
		return TaskResult{}, err
	}
	defer end()
	r, err := t.copilot.CodeTask(ctx, Task{Prompt: in.Prompt, Dir: dir, Model: in.Model, TimeoutMs: in.Timeout, Depth: in.Depth,
		Asker: t.server.asker(ctx, req), Watch: func(ev bridge.Event) { watch(p, ev) }})
	return withLists(r), err
}

// orchestrate runs a task in parts.
func (t *tasks) orchestrate(ctx context.Context, req *sdk.CallToolRequest, in orchestrateInput) (LargeResult, error) {
	dir, p, end, err := t.begin(ctx, req, "")
	if err != nil {
		return LargeResult{}, err
	}
	defer end()
	if in.MaxConcurrency == 0 {
		in.MaxConcurrency = defaultConcurrency
	}
	r, err := t.copilot.Orchestrate(ctx, LargeTask{Task: in.Task, Dir: dir, Concurrency: in.MaxConcurrency, TimeoutMs: in.Timeout, Depth: in.Depth,
		Asker: t.server.asker(ctx, req), Watch: func(line string) { p.say(clip(approval.Visible(line), 300)) }})
	return withLists(r), err
}
