package copilotbridge

import (
	"context"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// OrchestrateOptions bound a run. The zero value does up to three parts at a
// time, in git worktrees where there is a repository, and merges their work
// into the workspace as uncommitted changes.
type OrchestrateOptions struct {
	// Concurrency is how many parts are done at a time; 0 means 3.
	Concurrency int
	// Branch leaves the work on a branch, in place of the workspace's files.
	Branch bool
	// TaskTimeout bounds each part, Timeout the whole; 0 means no bound.
	TaskTimeout, Timeout time.Duration
	// Progress is told what happens, in one line. It must not block.
	Progress func(text string)
}

// Orchestration is the outcome of a run.
type Orchestration struct {
	Run     string // for `copilot-bridge orchestrate --resume`
	Success bool   // every part was done and merged
	Summary string
	Parts   []Part
	Files   []string // changed in the workspace, or on the branch
	Usage   bridge.Usage
}

// Part is one part of the task.
type Part struct {
	ID      string
	Success bool
	Summary string // the agent's last message
	Files   []string
	Err     error // why it failed; nil if it did not
}

// Orchestrate lets Copilot plan a task in parts, does them at the same time
// where they do not depend on each other, and merges the work. That a part
// fails is no error; Orchestration holds what there is even if there is one.
func (c *Client) Orchestrate(ctx context.Context, task string, o OrchestrateOptions) (Orchestration, error) {
	merge := orchestrate.MergeTree
	if o.Branch {
		merge = orchestrate.MergeBranch
	}
	r, err := orchestrate.Run(ctx, c.bridge.Orchestration(
		app.Guarding{Workspace: c.opts.Dir, Door: door, Asker: c.asker(), Defaults: policy.DefaultsRun()},
		orchestrate.Options{Task: task, Concurrency: o.Concurrency, Merge: merge, TaskTimeout: o.TaskTimeout, Timeout: o.Timeout, Watch: func(e orchestrate.Event) {
			if o.Progress != nil && e.Text != "" {
				line := e.Text
				if e.Task != "" {
					line = e.Task + ": " + line
				}
				o.Progress(line)
			}
		}}))
	out := Orchestration{Run: r.Run, Success: r.Success, Summary: r.Summary, Files: r.Files, Usage: r.Usage}
	for _, t := range r.Tasks {
		p := Part{ID: t.ID, Success: t.Success, Summary: t.Summary, Files: t.Files}
		if t.Error != nil {
			p.Err = t.Error
		}
		out.Parts = append(out.Parts, p)
	}
	return out, err
}
