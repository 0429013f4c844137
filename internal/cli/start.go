package cli

import (
	"cmp"
	"context"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

// options are what app needs to know of this program.
func (p *program) options(cfg *config.Config) app.Options {
	return app.Options{Config: cfg, Self: p.env.Executable, Version: buildVersion(), Environ: p.env.Environ,
		UserDir: p.env.HomeDir, Logger: p.log, DemoIfNone: true, Command: cmp.Or(p.called, "chat"), Workspace: p.env.Dir}
}

// start starts a bridge, which installs the runtime if there is none. The
// caller closes it.
func (p *program) start(ctx context.Context, o app.Options) (*app.Bridge, error) {
	if err := p.requireExecutable(); err != nil {
		return nil, err
	}
	shows := p.progress()
	defer shows.Begin("starting")()
	o.Progress = shows.Step
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

// header tells people who answers, and where.
func (p *program) header(b *app.Bridge, dir string) {
	if p.json {
		return
	}
	p.console.Dim("copilot-bridge · " + b.Answers.Detail + " · " + p.short(dir))
	if b.Answers.SetBy != "" {
		p.console.Dim("set by " + b.Answers.SetBy)
	}
	p.notice(b.Answers)
}

// notice warns if the answers are not Copilot's.
func (p *program) notice(a answers.Who) {
	if a.Notice != "" {
		p.console.Alert(a.Notice)
	}
}

// activity shows what happens, to machines if p.json is set.
func (p *program) activity(o view.Options) *view.Activity {
	if o.Home = p.env.HomeDir; p.json {
		o.JSON = p.out
	}
	return view.NewActivity(p.console, o)
}

// progress shows to people how far something has come, also with --json.
func (p *program) progress() *view.Activity { return view.NewActivity(p.console, view.Options{}) }
