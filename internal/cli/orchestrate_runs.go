package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// readPlan reads a plan of the user's.
func (p *program) readPlan(name string) (orchestrate.TaskPlan, error) {
	in, err := p.openPlan(name)
	if err != nil {
		return orchestrate.TaskPlan{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "cannot read the plan " + name,
			Cause: pathCause(err), Remedy: "name an existing file"}
	}
	data, err := io.ReadAll(io.LimitReader(in, orchestrate.MaxPlanBytes+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return orchestrate.TaskPlan{}, fmt.Errorf("read the plan: %w", err)
	}
	plan, err := orchestrate.ParsePlan(data)
	if err != nil {
		e := *bridge.AsError(err)
		e.Message = name + ": " + e.Message
		e.Remedy = "correct the plan; docs/guides/orchestrate.md shows its form"
		return plan, &e
	}
	return plan, nil
}

// openPlan opens a plan. One that is named below the current directory must be
// there: a link of the workspace does not lead out of it.
func (p *program) openPlan(name string) (io.ReadCloser, error) {
	rel, err := filepath.Rel(p.env.Dir, p.path(name))
	if name == "-" || err != nil || !filepath.IsLocal(rel) {
		return p.openFile(name)
	}
	root, err := os.OpenRoot(p.env.Dir)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(rel)
	return f, errors.Join(err, root.Close())
}

func (p *program) planOnly(ctx context.Context, b *app.Bridge, o *orchestrateOptions) error {
	p.header(b, o.dir)
	opts := b.Orchestration(app.Guarding{Workspace: o.dir, Door: "cli", Client: "copilot-bridge", Asker: approval.Nobody{}, Defaults: policy.DefaultsRun()}, orchestrate.Options{})
	shows := p.progress()
	stop := shows.Begin("planning")
	planned, err := orchestrate.MakePlan(ctx, opts.Open, o.dir, opts.Mask(o.task), func(s orchestrate.Progress) { shows.Planning(s.Text) })
	stop()
	if err != nil {
		return err
	}
	if planned.Problem != "" {
		p.console.Warn("the model's plan could not be used, so the task is one part: " + planned.Problem)
	}
	return p.printPlan(planned.Plan, o)
}

func (p *program) printPlan(plan orchestrate.TaskPlan, o *orchestrateOptions) error {
	form := o.planOnly
	if p.json {
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
	return errors.Join(err, p.print(view.Harmless(text)))
}

func (p *program) listRuns(cfg *config.Config) error {
	runs, err := orchestrate.Runs(cfg.Home)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]orchestrate.Listed{}, runs...))
	}
	if len(runs) == 0 {
		p.console.Line("no runs yet")
		return nil
	}
	var rows [][]string
	for _, r := range runs {
		state := r.State
		if state == orchestrate.StateFinished {
			state = fmt.Sprintf("%d of %d done", r.Outcome.Done, len(r.Outcome.Tasks))
		}
		rows = append(rows, []string{r.ID, state, p.short(r.Dir), runName(r.Name())})
	}
	return p.print(view.Table(rows, 0))
}

// runName is the first line of a run's name, for a list.
func runName(name string) string { return view.Fit(approval.Visible(text.FirstLine(name, 60)), 60) }

func runIDs(_ context.Context, cfg *config.Config) ([]cobra.Completion, error) {
	runs, err := orchestrate.Runs(cfg.Home)
	out := []cobra.Completion{cobra.CompletionWithDesc("last", "the newest run")}
	for _, r := range runs {
		out = append(out, cobra.CompletionWithDesc(r.ID, runName(r.Name())))
	}
	return out, err
}

// discardAll stands for every run that was interrupted.
const discardAll = "all"

// discardRuns removes one run, or all that were interrupted.
func (p *program) discardRuns(ctx context.Context, c call, o *orchestrateOptions) error {
	runs, err := runsToDiscard(c.cfg.Home, o.discard)
	if err != nil {
		return err
	}
	if !o.yes && len(runs) > 0 {
		for _, m := range runs {
			if !p.json {
				p.console.Line(m.ID + "  " + approval.Visible(p.short(m.Dir)) + "  " + runName(m.Name()))
			}
		}
		question := fmt.Sprintf("Discard %s with all the work of the parts?", plural(len(runs), "run"))
		if err := p.confirm(ctx, c, "--discard", question, "nothing was discarded"); err != nil {
			return err
		}
	}
	done := []orchestrate.Discarded{}
	text := ""
	for _, m := range runs {
		var d orchestrate.Discarded
		if d, err = app.DiscardRun(ctx, p.options(c.cfg), m.ID); err != nil {
			break
		}
		done = append(done, d)
		text += discardedText(d)
	}
	if len(runs) == 0 && !p.json {
		p.console.Line("no run was interrupted")
	}
	return p.showFailed(struct {
		Discarded []orchestrate.Discarded `json:"discarded"`
	}{done}, text, err)
}

func runsToDiscard(home, id string) (runs []orchestrate.Meta, err error) {
	if id != discardAll {
		m, err := orchestrate.FindRun(home, id)
		return []orchestrate.Meta{m}, err
	}
	all, err := orchestrate.Runs(home)
	for _, r := range all {
		if r.State == orchestrate.StateInterrupted {
			runs = append(runs, r.Meta)
		}
	}
	return runs, err
}

func discardedText(d orchestrate.Discarded) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s discarded\n", d.Run)
	for _, name := range d.Removed {
		fmt.Fprintf(&b, "  removed %s\n", approval.Visible(name))
	}
	for _, name := range d.Kept {
		fmt.Fprintf(&b, "  kept %s\n", approval.Visible(name))
	}
	if d.Notice != "" {
		fmt.Fprintf(&b, "  %s\n", d.Notice)
	}
	return b.String()
}

// maxInterrupted is how many interrupted runs a new one mentions.
const maxInterrupted = 3

// mentionInterrupted says which runs of a directory were killed and left where
// they were.
func (p *program) mentionInterrupted(cfg *config.Config, dir string) {
	runs, err := orchestrate.Runs(cfg.Home)
	if err != nil {
		return // the run itself reports it
	}
	n := 0
	for _, r := range runs {
		if r.State != orchestrate.StateInterrupted || filepath.Clean(r.Dir) != filepath.Clean(dir) {
			continue
		}
		if n++; n <= maxInterrupted {
			p.console.Warn(fmt.Sprintf("run %s was interrupted: resume it with --resume %[1]s, or remove it with --discard %[1]s", r.ID))
		}
	}
	if n > maxInterrupted {
		p.console.Warn(fmt.Sprintf("and %d more: see --list, or remove them all with --discard all", n-maxInterrupted))
	}
}
