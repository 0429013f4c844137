package app

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Orchestration fills in what a run of orchestrate needs of the bridge: where
// its state is kept, and sessions with the guard in front of them. The policy
// file of g's workspace, where the user works, counts for every part, wherever
// that is done.
func (b *Bridge) Orchestration(g Guarding, with orchestrate.Options) orchestrate.Options {
	c := b.opts.Config
	with.Home, with.Dir = c.Home, g.Workspace
	with.Environ, with.Logger, with.MaxRetries = task.PlainEnviron(b.opts.Environ), b.opts.Logger, c.MaxRetries
	with.Confine = b.confineGit()
	with.Open, with.MayRead, with.Admit, with.Mask = b.opener(g), b.mayRead(g), b.admit(g), b.clean
	return with
}

// Orchestrate runs what Orchestration has prepared, as one trace. It goes on with a
// run that was interrupted, if resume names one.
func (b *Bridge) Orchestrate(ctx context.Context, resume string, o orchestrate.Options) (r orchestrate.Result, err error) {
	ctx, end := b.tracer.Workflow(ctx, "orchestrate")
	defer func() { end(err) }()
	if resume != "" {
		return orchestrate.Resume(ctx, resume, o)
	}
	return orchestrate.Run(ctx, o)
}

// DiscardRun removes a run that is not going on. Nothing is started for it.
func DiscardRun(ctx context.Context, o Options, run string) (orchestrate.Discarded, error) {
	return orchestrate.Discard(ctx, run, orchestrate.Options{Home: o.Config.Home, Environ: task.PlainEnviron(o.Environ)})
}

// mayRead asks the guard of the user's own workspace whether a file may be
// read. Without a guard none may.
func (b *Bridge) mayRead(g Guarding) func(path string) bool {
	gate := sync.OnceValues(func() (*guard.Guard, error) { return b.Gate(g) })
	return func(path string) bool {
		g, err := gate()
		return err == nil && g.MayRead(path)
	}
}

// admit asks the guard of the user's own workspace about work that is about to
// be written there, as about a patch. What a part did in its worktree was
// judged call by call; what the programs did that it ran was not.
func (b *Bridge) admit(g Guarding) func(ctx context.Context, files []string, diff string) error {
	g.Caller = "Copilot, for the whole task,"
	return func(ctx context.Context, files []string, diff string) error {
		gate, err := b.Gate(g)
		if err != nil {
			return err
		}
		paths := make([]any, len(files))
		for i, f := range files {
			paths[i] = f
		}
		call := bridge.ToolCall{Name: workspace.ToolPatch, Args: map[string]any{"paths": paths, "dryRun": false}}
		if d := gate.Before(bridge.WithDetail(ctx, diff), call); d.Verdict != bridge.Allow {
			return d.Denied("your policy does not allow it: "+d.Reason, "")
		}
		return nil
	}
}

// clean hides the secrets of a text.
func (b *Bridge) clean(text string) string {
	r, _, err := b.guard.shared(b.opts.Config, b.opts.UserDir)
	if err != nil {
		r = redact.New(redact.Options{Secrets: b.opts.Config.Secrets()}) // nothing runs without a record, but the task is kept
	}
	out, _ := r.String(text)
	return out
}

// RoomFor sees to it that so many turns can run at a time.
func RoomFor(c *config.Config, turns int) {
	c.Engine.MaxConcurrent = max(cmp.Or(c.Engine.MaxConcurrent, engine.AgentTurns), turns)
}

func (b *Bridge) opener(users Guarding) orchestrate.Opener {
	return func(ctx context.Context, what orchestrate.Opening) (orchestrate.Session, error) {
		g := users
		g.Workspace, g.Rules, g.Caller = what.Dir, users.Workspace, "Copilot, for "+what.Task+","
		if what.Planning {
			g.Asker, g.Defaults = approval.Nobody{}, policy.DefaultsServe()
		}
		gate, err := b.Gate(g)
		if err != nil {
			return nil, err
		}
		leave := func() error {
			if what.Dir == users.Workspace {
				return nil
			}
			return b.guard.forget(what.Dir) // a worktree
		}
		spec := b.Spec(bridge.ProfileAgent, what.Dir)
		spec.Gate = gate
		s, err := b.Engine.Open(ctx, engine.Request{Spec: spec, Door: g.Door, Keep: !what.Planning, Title: what.Title, Client: g.Client, Run: what.Run, Task: what.Task})
		if err != nil {
			return nil, errors.Join(err, leave())
		}
		return &partSession{Session: s, discard: what.Planning, leave: leave}, nil
	}
}

// partSession is a session for parts of a task.
type partSession struct {
	*engine.Session
	discard bool // it will not be resumed
	leave   func() error
}

func (s *partSession) Close(ctx context.Context) error {
	if s.discard {
		return errors.Join(s.Discard(ctx), s.leave())
	}
	return errors.Join(s.Session.Close(ctx), s.leave())
}
