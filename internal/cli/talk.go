package cli

import (
	"context"
	"fmt"
	"iter"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// talkOptions are what run and sessions resume have in common.
type talkOptions struct {
	dir     string // "" for that of the session, or the working directory
	resume  string // a session's id, or ""
	yes     bool
	verbose bool
	chat    bool // turn after turn, for a person
}

// talk is a session in a directory with everything around it: a running
// bridge, a person to ask, and a view of the events.
type talk struct {
	p        *program
	opts     talkOptions
	bridge   *app.Bridge
	dir      string
	request  engine.Request
	keyboard *view.Keyboard // nil if nobody can be asked
	view     *view.Activity
}

// newTalk starts the bridge. The caller closes the talk.
func (p *program) newTalk(ctx context.Context, cfg *config.Config, o talkOptions) (t *talk, err error) {
	t = &talk{p: p, opts: o}
	resumedModel, flag := "", "--cwd"
	if o.resume != "" {
		entry, err := app.Store(cfg).Get(ctx, o.resume)
		if err != nil {
			return nil, err
		}
		t.opts.resume, resumedModel = entry.ID, entry.Model
		if o.dir == "" {
			o.dir, flag = entry.WorkingDirectory, "`copilot-bridge run --resume ID --cwd DIR`"
		}
	}
	if t.dir, err = p.directory(o.dir, flag); err != nil {
		return nil, err
	}
	opts := p.options(cfg)
	opts.Workspace = t.dir
	if t.bridge, err = p.start(ctx, opts); err != nil {
		return nil, err
	}
	opened := t // t is nil by the time that a failure is cleaned up after
	defer func() {
		if err != nil {
			opened.close(ctx)
		}
	}()
	spec := t.bridge.Spec(bridge.ProfileAgent, t.dir)
	if o.resume != "" && cfg.Origin("model").Source != config.SourceFlag && resumedModel != "" {
		spec.Model = resumedModel // a session keeps its model
	}
	t.view, t.keyboard = p.activity(view.Options{Verbose: o.verbose, Chat: o.chat, Dir: t.dir}), p.keyboard()
	t.request = engine.Request{Spec: spec, Door: "cli", Keep: true}
	if err := t.guard(); err != nil {
		return nil, err
	}
	p.header(t.bridge, t.dir)
	return t, nil
}

// guard gives the next session a guard of its own: what is granted for a session
// ends with it.
func (t *talk) guard() error {
	who := t.keyboard.Asker(t.view)
	if t.opts.yes {
		who = approval.Yes{}
	}
	g := app.Guarding{Workspace: t.dir, Door: "cli", Client: "copilot-bridge", Asker: who, Defaults: policy.DefaultsRun()}
	gate, err := t.bridge.Gate(g)
	if err != nil {
		return err
	}
	t.request.Spec.Gate, t.request.Spec.Person = gate, t.bridge.Person(g, gate, t.keyboard.Person())
	return nil
}

// close ends all that newTalk started.
func (t *talk) close(ctx context.Context) {
	t.keyboard.Close()
	t.p.close(ctx, t.bridge)
}

// follow shows a turn to its end and returns what it came to. The result
// holds what there is even if the turn failed.
func (t *talk) follow(turn iter.Seq2[bridge.Event, error]) (engine.Result, error) {
	var c engine.Collector
	defer t.view.Begin("waiting for Copilot")()
	for ev, err := range turn {
		if err != nil {
			return c.Result(), err
		}
		c.Add(ev)
		t.view.Event(ev)
	}
	return c.Result(), nil
}

// denials is the error of a successful turn in which calls were denied. People
// have read why at the call itself.
func denials(tools []engine.ToolUse, machines bool) error {
	denied, done, why := view.Denials(tools)
	if denied == 0 {
		return nil
	}
	err := &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the guard denied %d of %s", denied, plural(len(tools), "tool call")),
		Remedy: "see the reason above; docs/guides/policy.md says how to allow a call"}
	if machines {
		err.Message += ": " + why
	}
	if done > 0 {
		return &exitError{code: exitPartly, err: err}
	}
	return err
}
