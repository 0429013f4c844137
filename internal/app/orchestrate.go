package app

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
)

// Orchestrating says for whom a task is done in parts.
type Orchestrating struct {
	// Workspace is where the user works; its policy file counts for every
	// part, wherever that is done.
	Workspace string
	Door      string
	Asker     approval.Asker
	// Defaults decide where no rule speaks.
	Defaults policy.Defaults
}

// Orchestration fills in what a run of orchestrate needs of the bridge: where
// its state is kept, and sessions with the guard in front of them.
func (b *Bridge) Orchestration(o Orchestrating, with orchestrate.Options) orchestrate.Options {
	c := b.opts.Config
	with.Home, with.Dir = c.Home, o.Workspace
	with.Environ, with.Logger, with.MaxRetries = slices.Clone(b.opts.Environ), b.opts.Logger, c.MaxRetries
	with.Confine = b.confineGit()
	with.Open, with.MayRead, with.Admit, with.Mask = b.opener(o), b.mayRead(o), b.admit(o), b.clean
	return with
}

// mayRead asks the guard of the user's own workspace whether a file may be
// read. Without a guard none may.
func (b *Bridge) mayRead(o Orchestrating) func(path string) bool {
	gate := sync.OnceValues(func() (bridge.Gate, error) {
		return b.Gate(Guarding{Workspace: o.Workspace, Door: o.Door, Defaults: o.Defaults})
	})
	return func(path string) bool {
		g, err := gate()
		reader, ok := g.(interface{ MayRead(path string) bool })
		return err == nil && ok && reader.MayRead(path)
	}
}

// admit asks the guard of the user's own workspace about work that is about to
// be written there, as about a patch. What a part did in its worktree was
// judged call by call; what the programs did that it ran was not.
func (b *Bridge) admit(o Orchestrating) func(ctx context.Context, files []string, diff string) error {
	return func(ctx context.Context, files []string, diff string) error {
		gate, err := b.Gate(Guarding{Workspace: o.Workspace, Door: o.Door, Caller: "Copilot, for the whole task,", Asker: o.Asker, Defaults: o.Defaults})
		if err != nil {
			return err
		}
		paths := make([]any, len(files))
		for i, f := range files {
			paths[i] = f
		}
		call := bridge.ToolCall{Name: workspace.ToolPatch, Args: map[string]any{"paths": paths, "dryRun": false}}
		if d := gate.Before(bridge.WithDetail(ctx, diff), call); d.Verdict != bridge.Allow {
			return &bridge.Error{Code: bridge.CodeDenied, Message: "your policy does not allow it: " + d.Reason}
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
	c.Engine.MaxConcurrent = max(c.Engine.MaxConcurrent, turns)
}

func (b *Bridge) opener(o Orchestrating) orchestrate.Opener {
	return func(ctx context.Context, what orchestrate.Opening) (orchestrate.Session, error) {
		g := Guarding{Workspace: what.Dir, Rules: o.Workspace, Door: o.Door, Caller: "Copilot, for " + what.Task + ",", Asker: o.Asker, Defaults: o.Defaults}
		if what.Planning {
			g.Asker, g.Defaults = approval.Nobody{}, policy.DefaultsServe()
		}
		gate, err := b.Gate(g)
		if err != nil {
			return nil, err
		}
		spec := b.Spec(bridge.ProfileAgent, what.Dir)
		spec.Gate = gate
		s, err := b.Engine.Open(ctx, engine.Request{Spec: spec, Door: o.Door, Keep: !what.Planning, Title: what.Title})
		if err != nil {
			return nil, errors.Join(err, b.leave(o, what.Dir))
		}
		return &partSession{Session: s, discard: what.Planning, leave: func() error { return b.leave(o, what.Dir) }}, nil
	}
}

// leave lets go of a worktree.
func (b *Bridge) leave(o Orchestrating, dir string) error {
	if dir == o.Workspace {
		return nil
	}
	return b.guard.forget(dir)
}

// partSession is a session for parts of a task.
type partSession struct {
	*engine.Session
	discard bool // nobody will want it back
	leave   func() error
}

func (s *partSession) Close(ctx context.Context) error {
	if s.discard {
		return errors.Join(s.Discard(ctx), s.leave())
	}
	return errors.Join(s.Session.Close(ctx), s.leave())
}
