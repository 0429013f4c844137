package app

import (
	"cmp"
	"context"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/mcp"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// Orchestrate does a task in parts, as the command of that name does. The
// configuration's bound on turns at a time holds for it too.
func (c *coder) Orchestrate(ctx context.Context, t mcp.LargeTask) (mcp.LargeResult, error) {
	b, end, err := c.begin(ctx, t.Depth)
	if err != nil {
		return mcp.LargeResult{}, err
	}
	defer end()
	out := mcp.LargeResult{Notice: b.Answers.Notice, Answers: b.Answers.Answers}
	g := Guarding{Workspace: t.Dir, Door: c.door, Asker: t.Asker, Defaults: c.defaults()}
	opts := b.Orchestration(g, orchestrate.Options{
		Task: t.Task, Concurrency: min(t.Concurrency, cmp.Or(b.opts.Config.Engine.MaxConcurrent, engine.AgentTurns)), Timeout: time.Duration(t.TimeoutMs) * time.Millisecond,
		Watch: func(e orchestrate.Event) {
			if e.Plan != nil {
				out.Plan = planParts(*e.Plan)
			}
			if line := e.Line(); line != "" {
				t.Watch(line)
			}
		},
	})
	if t.Worker != "" {
		labels, err := workerLabels(t.Worker, t.Depth)
		if err != nil {
			return mcp.LargeResult{}, err
		}
		opts.Concurrency = t.Concurrency // the workers have bounds of their own
		f, err := b.readyWorker(ctx, g, b.fleetWork(labels), &opts)
		if err != nil {
			return mcp.LargeResult{}, err
		}
		defer func() {
			if err := f.Close(); err != nil {
				b.opts.Logger.Warn("fleet.not_closed", "error", err)
			}
		}()
	}
	r, err := b.Orchestrate(ctx, "", opts)
	if err != nil {
		if r.Run != "" && bridge.CodeOf(err) != bridge.CodeDenied {
			e := *bridge.AsError(err)
			if e.Remedy == "" {
				e.Remedy = "resume it with `copilot-bridge orchestrate --resume " + r.Run + "`"
			}
			err = &e
		}
		return mcp.LargeResult{}, err
	}
	return largeResult(out, r), nil
}

func planParts(p orchestrate.TaskPlan) []mcp.Part {
	var out []mcp.Part
	for _, t := range p.Tasks {
		out = append(out, mcp.Part{ID: t.ID, Description: t.Description, Complexity: string(t.EstimatedComplexity), DependsOn: p.Dependencies[t.ID]})
	}
	return out
}

func largeResult(out mcp.LargeResult, r orchestrate.Result) mcp.LargeResult {
	out.Success, out.Summary, out.Files, out.Run = r.Success, r.Summary, r.Files, r.Run
	out.Usage, out.CriticalPath, out.KeptBranches = usage(r.Usage), r.CriticalPath, r.Kept
	out.DurationMs, out.SequentialMs, out.Speedup = r.Duration.Milliseconds(), r.Sequential.Milliseconds(), r.Speedup
	for _, t := range r.Tasks {
		part := mcp.PartDone{ID: t.ID, State: string(t.State), Summary: t.Summary, Error: t.Reason, Files: t.Files, ToolCalls: t.Tools, Denied: t.Denied,
			Usage: usage(t.Usage), DurationMs: t.Duration.Milliseconds(), Session: t.Session, HeldBack: t.HeldBack, Branch: t.Branch}
		if t.Error != nil {
			part.Error = t.Error.Error()
		}
		out.Tasks = append(out.Tasks, part)
	}
	for _, c := range r.Conflicts {
		out.Conflicts = append(out.Conflicts, mcp.Conflict{Paths: c.Paths, Resolved: c.Resolved, Message: c.Message})
	}
	if r.Merge != nil {
		out.Branch = r.Merge.Branch
	}
	return out
}

func usage(u bridge.Usage) mcp.Usage {
	return mcp.Usage{Model: u.Model, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
}
