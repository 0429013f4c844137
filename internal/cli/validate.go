package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

type validateOptions struct{ turn bool }

func (p *program) validateCommand() *cobra.Command {
	o := &validateOptions{}
	cmd := complete(&cobra.Command{
		Use:   "validate",
		Short: "Check the set-up",
		Long: `Check the configuration, state directories, sandbox, runtime, login and models. Nothing is
installed. Exits with 3 if Copilot cannot answer; the demo model counts as an answer.`,
		Example: `  copilot-bridge validate
  copilot-bridge validate --turn
  copilot-bridge validate --json | jq '.checks[] | select(.status!="ok")'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.validate(cmd, o) },
	})
	f := flagsOf(cmd)
	f.json("write JSON")
	f.BoolVar(&o.turn, "turn", false, "also ask the model one short question")
	f.demo()
	return cmd
}

// check is one thing that was looked at.
type check struct {
	Name   string     `json:"name"`
	Status view.Check `json:"status"`
	Detail string     `json:"detail"`
	Remedy string     `json:"remedy,omitempty"`
	code   int        // to exit with if it failed
}

// validation is what validate finds.
type validation struct {
	OK       bool           `json:"ok"`
	ExitCode int            `json:"exit_code"`
	Answers  *answers.Who   `json:"answers,omitempty"`
	OpenClaw *openClaw      `json:"openclaw,omitempty"`
	Sandbox  *sandboxReport `json:"sandbox,omitempty"`
	Checks   []check        `json:"checks"`

	p *program
}

func (v *validation) add(c check) {
	c.Detail = view.WithoutTokens(c.Detail)
	v.Checks = append(v.Checks, c)
	if !v.p.json {
		v.p.console.Check(c.Status, c.Name, c.Detail, c.Remedy)
	}
}

func (v *validation) ok(name, format string, args ...any) {
	v.add(check{Name: name, Status: view.CheckOK, Detail: fmt.Sprintf(format, args...)})
}

func (v *validation) warn(name, detail, remedy string) {
	v.add(check{Name: name, Status: view.CheckWarning, Detail: detail, Remedy: remedy})
}

// fail reports an error; code is the exit code that it leads to.
func (v *validation) fail(name string, err error, code int) {
	v.add(check{Name: name, Status: view.CheckFailed, Detail: strings.TrimSpace(err.Error()), Remedy: bridge.AsError(err).Remedy, code: code})
}

// verdict is the exit code: a wrong configuration says more than what follows
// from it, and a Copilot that cannot answer more than a broken list.
func (v *validation) verdict() int {
	code := exitDone
	for _, c := range v.Checks {
		switch {
		case c.Status != view.CheckFailed:
		case c.code == exitUsage || code == exitUsage:
			code = exitUsage
		default:
			code = max(code, c.code)
		}
	}
	return code
}

func (p *program) validate(cmd *cobra.Command, o *validateOptions) error {
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	v := &validation{p: p, Checks: []check{}}
	v.run(ctx, cmd, o)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	v.ExitCode = v.verdict()
	v.OK = v.ExitCode == exitDone
	if p.json {
		for i := range v.Checks {
			v.Checks[i].Detail = p.scrub.Text(v.Checks[i].Detail)
		}
		if err := p.printJSON(v); err != nil {
			return err
		}
	}
	return &exitError{code: v.ExitCode}
}

// run makes the checks in an order in which each can build on those before.
func (v *validation) run(ctx context.Context, cmd *cobra.Command, o *validateOptions) {
	cfg, err := v.p.load(cmd)
	if err != nil {
		v.fail("config", err, exitUsage)
		return
	}
	stop := v.p.progress().Begin("checking")
	v.config(cfg)
	v.directories(cfg)
	v.sessions(ctx, cfg)
	v.leftovers(cfg)
	v.modules()
	v.sandbox(ctx, cfg)
	v.openclaw(ctx, cfg)
	v.vscode(ctx, cfg)
	usable := v.transport(ctx, cfg)
	if stop(); usable {
		v.copilot(ctx, cfg, o)
	}
}

// sandboxReport says how programs are confined.
type sandboxReport struct {
	Mode string `json:"mode"`
	Wall string `json:"wall,omitempty"` // "" for none
}

// sandbox tries whether the operating system can confine programs.
func (v *validation) sandbox(ctx context.Context, cfg *config.Config) {
	v.Sandbox = &sandboxReport{Mode: cfg.Sandbox}
	wall, err := app.Wall(ctx, cfg, v.p.env.Environ)
	switch {
	case err == nil && wall == nil:
		v.ok("sandbox", "off: programs are held by the guard alone (sandbox: auto has the operating system confine them too)")
	case err == nil:
		v.Sandbox.Wall = wall.String()
		v.ok("sandbox", "%s was tried and confines programs", wall)
	case cfg.Sandbox == "require":
		v.fail("sandbox", err, exitUnavailable)
	default:
		v.warn("sandbox", "programs are held by the guard alone, which asks more: "+err.Error(), bridge.AsError(err).Remedy)
	}
}

// config says which files are in force.
func (v *validation) config(cfg *config.Config) {
	from := map[config.Source]int{}
	for _, s := range cfg.Show() {
		from[s.Origin.Source]++
	}
	parts := []string{}
	for _, s := range []struct {
		source config.Source
		where  string
	}{
		{config.SourceFlag, "flags"}, {config.SourceEnvironment, "the environment"}, {config.SourceDotEnv, ".env"},
		{config.SourceFile, cfg.Path(configFile)},
	} {
		if n := from[s.source]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d from %s", n, s.where))
		}
	}
	if len(parts) == 0 {
		v.ok("config", "all defaults; %s would be read if it were there", cfg.Path(configFile))
		return
	}
	v.ok("config", "%s", strings.Join(parts, ", "))
}
