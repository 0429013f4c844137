package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
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
// bridge, a person to ask, and a view of the events.
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
	if t.bridge, err = p.start(ctx, p.options(cfg, o.demo)); err != nil {
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
	if t.keyboard = p.keyboardUnless(o.json); t.keyboard != nil {
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
	p.header(t.bridge, t.dir)
	return t, nil
}

// header says who answers, and where.
func (p *program) header(b *app.Bridge, dir string) {
	c := p.console
	c.line(c.style.dim("copilot-bridge · " + approval.Visible(b.Answers.Detail) + " · " + approval.Visible(p.short(dir))))
	if b.Answers.SetBy != "" {
		c.line(c.style.dim("set by " + approval.Visible(b.Answers.SetBy)))
	}
	p.notice(b.Answers)
}

// notice warns if the answers are not Copilot's.
func (p *program) notice(a app.Answers) {
	if a.Notice != "" {
		p.console.line(p.console.style.loud("! " + a.Notice))
	}
}

// close ends all that newTalk started.
func (t *talk) close(ctx context.Context) {
	t.keyboard.close()
	t.p.close(ctx, t.bridge)
}

// follow shows a turn to its end and returns what it came to. The result
// holds what there is even if the turn failed.
func (t *talk) follow(turn iter.Seq2[bridge.Event, error]) (engine.Result, tally, error) {
	var c engine.Collector
	var count tally
	if t.people != nil {
		t.people.begin("waiting for Copilot")
		defer t.people.c.tick(&t.people.mu, t.people.redraw)()
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

// options are what app needs to know of this program.
func (p *program) options(cfg *config.Config, demo bool) app.Options {
	return app.Options{Config: cfg, Self: p.env.Executable, Version: buildVersion(), Environ: p.env.Environ,
		UserDir: p.env.HomeDir, Logger: p.log, Demo: demo}
}

// start starts a bridge, which installs the runtime if there is none. The
// caller closes it.
func (p *program) start(ctx context.Context, o app.Options) (*app.Bridge, error) {
	if err := p.requireExecutable(); err != nil {
		return nil, err
	}
	bar := newBar(p.console)
	defer bar.done()
	p.console.show([]liveLine{{"… starting", p.console.style.dim}})
	o.Progress = copilotruntime.Progress(bar.step)
	return app.Start(ctx, o)
}

// close closes c. A failure is only logged: the work is done.
func (p *program) close(ctx context.Context, c interface{ Close(context.Context) error }) {
	if err := c.Close(ctx); err != nil {
		p.log.Warn("shutdown.failed", "error", err)
	}
}

// requireExecutable fails if the path of this program, which supervises the runtime,
// is not known.
func (p *program) requireExecutable() error {
	if p.env.Executable != "" {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the path of this program is not known", Remedy: "call it by its full path"}
}

// path resolves a path that the user gave.
func (p *program) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.env.Dir, name)
}

// short is a path with ~ for the user's home.
func (p *program) short(path string) string { return shorten(path, "", p.env.HomeDir) }

// directory resolves and checks a directory to work in.
func (p *program) directory(dir string) (string, error) {
	dir, err := filepath.Abs(p.path(dir))
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the working directory %s does not exist", dir)
	case err != nil:
		err = fmt.Errorf("the working directory cannot be used: %w", err)
	case !info.IsDir():
		err = fmt.Errorf("%s is not a directory", dir)
	default:
		return dir, nil
	}
	return "", &bridge.Error{Code: bridge.CodeInvalid, Message: err.Error(), Remedy: "name an existing directory with --cwd"}
}

// tally counts how tool calls ended, those of sub-agents too.
type tally struct {
	done, failed, denied int
	why                  string // of the first denial
	calls                map[string]bridge.ToolCall
}

func (t *tally) add(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.ToolStarted:
		if t.calls == nil {
			t.calls = map[string]bridge.ToolCall{}
		}
		t.calls[e.Call.ID] = e.Call
	case bridge.ToolFinished:
		switch {
		case e.OK:
			t.done++
		case denied(e):
			t.denied++
			if t.why == "" {
				t.why = toolText(t.calls[e.CallID], "") + ": " + reason(e)
			}
		default:
			t.failed++
		}
	default:
	}
}

// verdict is the error of a successful turn in which calls were denied.
func (t *tally) verdict() error {
	if t.denied == 0 {
		return nil
	}
	all := t.done + t.failed + t.denied
	err := &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the guard denied %d of %s: %s", t.denied, plural(all, "tool call"), t.why)}
	if t.done > 0 {
		return &exitError{code: exitPartly, err: err}
	}
	return err
}

// summary shows the outcome of a task.
func (t *talk) summary(r engine.Result, n tally, err error, took time.Duration) {
	c := t.p.console
	var parts []string
	if len(r.Tools) > 0 {
		parts = append(parts, plural(len(r.Tools), "tool call")+" ("+toolCounts(r.Tools)+")")
	}
	if n.denied > 0 {
		parts = append(parts, c.style.red(fmt.Sprintf("%d denied", n.denied)))
	}
	if err == nil && r.Reason == bridge.EndAborted {
		err = errInterrupted()
	}
	c.outcome(err, bridge.CodeOf(err) == bridge.CodeDenied && n.done > 0, took, r.Usage, parts...)
	if len(r.Files) > 0 {
		names := make([]string, len(r.Files))
		for i, f := range r.Files {
			names[i] = approval.Visible(shorten(f, t.dir, t.p.env.HomeDir))
		}
		c.line("  " + plural(len(names), "file") + " written: " + c.style.bold(strings.Join(names, ", ")))
	}
	if r.Session != "" {
		c.line(c.style.dim(fmt.Sprintf("  session %s · resume with: copilot-bridge run --resume %s \"…\"", r.Session, shortID(r.Session))))
	}
}

// toolCounts is "create, bash ×3", in the order of first use.
func toolCounts(tools []engine.ToolUse) string {
	var names []string
	times := map[string]int{}
	for _, u := range tools {
		if !slices.Contains(names, u.Name) {
			names = append(names, u.Name)
		}
		times[u.Name]++
	}
	for i, name := range names {
		names[i] = approval.Visible(name)
		if n := times[name]; n > 1 {
			names[i] += fmt.Sprintf(" ×%d", n)
		}
	}
	return strings.Join(names, ", ")
}

// shortID is enough of a session's id to type.
func shortID(id string) string { return id[:min(len(id), 8)] }
