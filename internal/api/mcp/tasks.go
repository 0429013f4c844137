package mcp

import (
	"context"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// tasks does what the tools that start Copilot promise, whatever they are
// called: one at a time in each directory.
type tasks struct {
	server  *Server
	copilot Copilot
	queue   *lanes
}

// begun is a task whose turn it is.
type begun struct {
	dir   string
	depth int
	*progress
	leave func()
}

// begin waits for the directory. The caller ends the task when it is done.
//
// Tasks of different depths do not wait for each other: the less deep one may be
// waiting for this very one.
func (t *tasks) begin(ctx context.Context, workingDir string, claimed int) (*begun, error) {
	depth := max(claimed, t.server.opts.Depth())
	if err := t.server.opts.Enter(depth); err != nil {
		return nil, err
	}
	dir, err := t.copilot.Place(workingDir)
	if err != nil {
		return nil, err
	}
	p := newProgress(ctx)
	leave, err := t.queue.enter(ctx, lane{dir, depth}, func(ahead int) { p.say(fmt.Sprintf("waiting: %d ahead in this directory", ahead)) })
	if err != nil {
		p.stop()
		return nil, err
	}
	p.say("starting Copilot")
	return &begun{dir: dir, depth: depth, progress: p, leave: leave}, nil
}

func (b *begun) end() {
	b.leave()
	b.stop()
}

// code runs a coding task; watch turns its events into reports.
func (t *tasks) code(ctx context.Context, in codeTaskInput, watch func(*progress, bridge.Event)) (TaskResult, error) {
	b, err := t.begin(ctx, in.WorkingDir, in.Depth)
	if err != nil {
		return TaskResult{}, err
	}
	defer b.end()
	r, err := t.copilot.CodeTask(ctx, Task{Prompt: in.Prompt, Dir: b.dir, Model: in.Model, Worker: in.Worker, TimeoutMs: in.Timeout, Depth: b.depth,
		Asker: clientOf(ctx), Person: clientOf(ctx).person(), Watch: func(ev bridge.Event) { watch(b.progress, ev) }})
	return withLists(r), err
}

// orchestrate runs a task in parts.
func (t *tasks) orchestrate(ctx context.Context, in orchestrateInput) (LargeResult, error) {
	b, err := t.begin(ctx, "", in.Depth)
	if err != nil {
		return LargeResult{}, err
	}
	defer b.end()
	if in.MaxConcurrency == 0 {
		in.MaxConcurrency = defaultConcurrency
	}
	r, err := t.copilot.Orchestrate(ctx, LargeTask{Task: in.Task, Dir: b.dir, Concurrency: in.MaxConcurrency, Worker: in.Worker, TimeoutMs: in.Timeout, Depth: b.depth,
		Asker: clientOf(ctx), Watch: func(line string) { b.say(clip(approval.Visible(line), 300)) }})
	return withLists(r), err
}
