package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// talkOptions are what run and sessions resume have in common.
type talkOptions struct {
	dir     string // "" for that of the session, or the working directory
	resume  string // a session's id, or ""
	json    bool
	yes     bool
	demo    bool
	verbose bool
}

// talk is a session in a directory with everything around it: a running
// bridge, somebody who is asked, and a view of what happens.
type talk struct {
	p        *program
	opts     talkOptions
	bridge   *app.Bridge
	dir      string
	request  engine.Request
	keyboard *keyboard     // nil if nobody can be asked
	asked    chan struct{} // see asker
	people   *people       // one of these two shows what happens
	machine  *machine
}

// newTalk starts the bridge. The caller closes the talk.
func (p *program) newTalk(ctx context.Context, cfg *config.Config, o talkOptions) (t *talk, err error) {
	t = &talk{p: p, opts: o, asked: make(chan struct{}, 1)}
	resumedModel := ""
	if o.resume != "" {
		entry, err := app.Store(cfg).Get(ctx, o.resume)
		if err != nil {
			return nil, err
		}
		t.opts.resume, resumedModel = entry.ID, entry.Model
		if o.dir == "" {
			o.dir = entry.WorkingDirectory
		}
	}
	if t.dir, err = p.directory(o.dir); err != nil {
		return nil, err
	}
	if t.bridge, err = p.start(ctx, cfg, o.demo); err != nil {
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
	var who approval.Asker = approval.Nobody{}
	if !o.json && p.hasKeyboard() {
		t.keyboard = p.openKeyboard()
		who, spec.Person = asker{t.keyboard, t.asked}, person{t.keyboard}
	}
	if o.yes {
		who = approval.Yes{}
	}
	if spec.Gate, err = t.bridge.Gate(app.Guarding{Workspace: t.dir, Door: "cli", Asker: who, Defaults: policy.DefaultsRun()}); err != nil {
		return nil, err
	}
	t.request = engine.Request{Spec: spec, Door: "cli", Keep: true}
	if o.json {
		t.machine = &machine{out: p.out, verbose: o.verbose}
		return t, nil
	}
	t.people = newPeople(p.console, t.dir, o.verbose)
	t.header()
	return t, nil
}

// header says who answers, and where.
func (t *talk) header() {
	c := t.p.console
	c.line(c.style.dim("copilot-bridge · " + approval.Visible(t.bridge.Answers.Detail) + " · " +
		approval.Visible(shorten(t.dir, "", t.p.env.HomeDir))))
	if by := t.bridge.Answers.SetBy; by != "" {
		c.line(c.style.dim("set by " + approval.Visible(by)))
	}
	if n := t.bridge.Answers.Notice; n != "" {
		c.line(c.style.loud("! " + n))
	}
}

// close ends all that newTalk started.
func (t *talk) close(ctx context.Context) {
	if t.keyboard != nil {
		t.keyboard.close()
	}
	if err := t.bridge.Close(ctx); err != nil {
		t.p.log.Warn("the end was not clean", "error", err)
	}
}

// follow shows a turn to its end and returns what it came to. The result
// holds what there is even if the turn failed.
func (t *talk) follow(turn iter.Seq2[bridge.Event, error]) (engine.Result, tally, error) {
	var c engine.Collector
	var count tally
	if t.people != nil {
		t.people.begin("waiting for Copilot")
		defer t.people.tick()()
	}
	for ev, err := range turn {
		if err != nil {
			return c.Result(), count, err
		}
		c.Add(ev)
		count.add(ev)
		t.show(ev)
		if _, ok := ev.(bridge.PermissionAsked); ok {
			select {
			case t.asked <- struct{}{}:
			default:
			}
		}
	}
	return c.Result(), count, nil
}

func (t *talk) show(ev bridge.Event) {
	if t.people != nil {
		t.people.event(ev)
		return
	}
	t.machine.event(ev)
}

// start starts a bridge, which installs the runtime if there is none.
func (p *program) start(ctx context.Context, cfg *config.Config, demo bool) (*app.Bridge, error) {
	return p.startWith(ctx, app.Options{Config: cfg, Demo: demo})
}

// startWith starts a bridge by options that hold what is special about it.
func (p *program) startWith(ctx context.Context, o app.Options) (*app.Bridge, error) {
	if p.env.Executable == "" {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the path of this program is not known",
			Remedy: "call it by its full path"}
	}
	bar := newBar(p.console)
	defer bar.done()
	p.console.show([]liveLine{{"… starting", p.console.style.dim}})
	o.Self, o.Version, o.Environ, o.UserDir = p.env.Executable, buildVersion(), p.env.Environ, p.env.HomeDir
	o.Logger, o.Progress = p.log, copilotruntime.Progress(bar.step)
	return app.Start(ctx, o)
}

// directory resolves and checks a directory to work in.
func (p *program) directory(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.env.Dir, dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "the working directory is not known", Cause: err}
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the working directory %s does not exist", dir),
			Remedy: "name an existing directory with --cwd"}
	case err != nil:
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "the working directory cannot be used", Cause: err,
			Remedy: "name another directory with --cwd"}
	case !info.IsDir():
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: dir + " is not a directory",
			Remedy: "name a directory with --cwd"}
	}
	return dir, nil
}
