package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// readPlan reads a plan of the user's.
func (p *program) readPlan(name string) (orchestrate.TaskPlan, error) {
	in := p.env.Stdin
	if name != "-" {
		f, err := p.openPlan(name)
		if err != nil {
			return orchestrate.TaskPlan{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "cannot read the plan " + name, Cause: pathCause(err), Remedy: "name an existing file"}
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, orchestrate.MaxPlanBytes+1))
	if err != nil {
		return orchestrate.TaskPlan{}, fmt.Errorf("read the plan: %w", err)
	}
	plan, err := orchestrate.ParsePlan(data)
	if err != nil {
		e := *bridge.AsError(err)
		e.Message = name + ": " + e.Message
		e.Remedy = "correct the plan; docs/orchestrate.md shows its form"
		return plan, &e
	}
	return plan, nil
}

// openPlan opens a plan. One that is named below the current directory must be
// there: a link of the workspace does not lead out of it.
func (p *program) openPlan(name string) (*os.File, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.env.Dir, path)
	}
	rel, err := filepath.Rel(p.env.Dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return os.Open(path)
	}
	root, err := os.OpenRoot(p.env.Dir)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(rel)
	return f, errors.Join(err, root.Close())
}

func (p *program) planOnly(ctx context.Context, b *app.Bridge, o *orchestrateOptions) error {
	if !o.json {
		p.header(b, o.dir)
	}
	opts := b.Orchestration(app.Orchestrating{Workspace: o.dir, Door: "cli", Asker: approval.Nobody{}, Defaults: policy.DefaultsRun()}, orchestrate.Options{})
	planned, err := orchestrate.MakePlan(ctx, opts.Open, o.dir, opts.Mask(o.task), func(s orchestrate.Progress) {
		p.console.show([]liveLine{{"… planning: " + approval.Visible(s.Text), p.console.style.dim}})
	})
	p.console.show(nil)
	if err != nil {
		return err
	}
	if planned.Problem != "" {
		p.console.line(p.console.style.yellow("! the model's plan could not be used, so the task is one part: " + approval.Visible(planned.Problem)))
	}
	return p.printPlan(planned.Plan, o)
}

func (p *program) printPlan(plan orchestrate.TaskPlan, o *orchestrateOptions) error {
	form := o.planOnly
	if o.json {
		form = "json"
	}
	var text string
	var err error
	switch form {
	case "json":
		return p.printJSON(plan)
	case "mermaid":
		text, err = plan.Mermaid()
	default:
		text, err = plan.Text()
	}
	return errors.Join(err, p.print(harmless(text)))
}

func (p *program) listRuns(cfg *config.Config, asJSON bool) error {
	runs, err := orchestrate.Runs(cfg.Home)
	if err != nil {
		return err
	}
	if asJSON {
		if runs == nil {
			runs = []orchestrate.Listed{}
		}
		return p.printJSON(runs)
	}
	if len(runs) == 0 {
		p.console.line("no runs yet")
		return nil
	}
	for _, r := range runs {
		state := "unfinished"
		if r.Outcome != nil {
			state = fmt.Sprintf("%d of %d done", r.Outcome.Done, len(r.Outcome.Tasks))
		}
		if err := p.print(fmt.Sprintf("%s  %-14s  %s  %s\n", r.ID, state, approval.Visible(shorten(r.Dir, "", p.env.HomeDir)), fit(approval.Visible(r.Task), 60))); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) completeRuns(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const how = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	cfg, err := p.load(nil)
	if err != nil {
		return nil, how
	}
	runs, err := orchestrate.Runs(cfg.Home)
	if err != nil {
		return nil, how
	}
	out := []cobra.Completion{cobra.CompletionWithDesc("last", "the newest run")}
	for _, r := range runs {
		out = append(out, cobra.CompletionWithDesc(r.ID, fit(approval.Visible(r.Task), 60)))
	}
	return out, how
}
