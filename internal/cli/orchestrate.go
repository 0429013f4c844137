package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// orchestrateOptions are the flags and arguments of orchestrate.
type orchestrateOptions struct {
	runOptions
	planFile    string
	planOnly    string
	concurrency int
	isolation   string
	merge       string
	total       time.Duration
	each        time.Duration
	eager       bool
	list        bool
}

var (
	planForms  = []string{"text", "json", "mermaid"}
	isolations = []string{string(orchestrate.IsolationWorktree), string(orchestrate.IsolationShared)}
	mergeModes = []string{string(orchestrate.MergeTree), string(orchestrate.MergeBranch)}
)

func (p *program) orchestrateCommand() *cobra.Command {
	o := &orchestrateOptions{}
	cmd := &cobra.Command{
		Use:   `orchestrate ["TASK"]`,
		Short: "Let Copilot do a large task in parts, several at a time",
		Long: `Let Copilot do a large task in parts, several at a time.

Copilot first makes a plan: parts, and what depends on what. Each part is then
done in a session of its own, as soon as what it depends on is done. In a git
repository every part works in its own worktree, so that they cannot get in each
other's way; what they did is put together in the order of their dependencies
and added to your files as uncommitted changes (--merge tree) or put on a branch
(--merge branch). Your own uncommitted work is part of what the parts see, and
is never overwritten: where you changed the same lines meanwhile, nothing is
written and the work stays on a branch. A conflict between parts is given to
Copilot once; if it stays, it is reported and both sides are kept.

Everything is on record under ~/.copilot-bridge/runs. A run that was interrupted,
killed or partly failed goes on with --resume: what is done is not repeated.

With --json standard output carries one event a line and, last, a line of type
"result". Consent works as in "run". With as many places as the widest wave has
tasks, every task starts the moment it can; with fewer, an early start is put off
where it might delay others, unless --eager is given.

` + exitHelp,
		Example: `  copilot-bridge orchestrate "add tests for every package" --max-concurrency 4
  copilot-bridge orchestrate "port the parser to Go" --plan-only=mermaid
  copilot-bridge orchestrate "port the parser to Go" --plan plan.json --merge branch
  copilot-bridge orchestrate --resume last
  copilot-bridge orchestrate "…" --json | jq -r 'select(.type=="task_complete") | .task'`,
		Args: takes(cobra.MaximumNArgs(1), "one task in quotes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.task = strings.Join(args, " ")
			return p.runOrchestrate(cmd, o, len(args) > 0)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVarP(&o.dir, "cwd", "C", "", "work in this `DIR` (default: the present one)")
	f.StringVarP(&o.model, "model", "m", "", "`MODEL` to use")
	f.StringVar(&o.effort, "reasoning-effort", "", "`HOW` much the model should think: "+strings.Join(settingValues("reasoning_effort"), ", "))
	f.IntVarP(&o.concurrency, "max-concurrency", "n", 0, fmt.Sprintf("at most `N` parts at a time (default %d)", orchestrate.DefaultConcurrency))
	f.StringVar(&o.isolation, "isolation", "", "`WHERE` parts work: worktree (default in a git repository) or shared")
	f.StringVar(&o.merge, "merge", string(orchestrate.MergeTree), "`WHERE` the work goes: tree or branch")
	f.StringVar(&o.planFile, "plan", "", "carry out the plan in this `FILE` (JSON; - for standard input)")
	f.StringVar(&o.planOnly, "plan-only", "", "print the plan and do nothing, in this `FORM`: text, json or mermaid")
	f.Lookup("plan-only").NoOptDefVal = planForms[0]
	f.StringVar(&o.resume, "resume", "", "go on with the run `ID`, or with the last")
	f.BoolVar(&o.list, "list", false, "list the runs there are")
	f.DurationVar(&o.total, "timeout", 0, "longest `TIME` the whole may take, such as 2h; what is done by then is merged")
	f.DurationVar(&o.each, "task-timeout", 0, "longest `TIME` one part may take, such as 20m")
	f.BoolVar(&o.eager, "eager", false, "start every part the moment it can, even where that may delay others")
	f.BoolVar(&o.json, "json", false, "write events and the result as JSON lines")
	f.BoolVarP(&o.yes, "yes", "y", false, "consent to everything that would be asked")
	f.BoolVar(&o.demo, "demo", false, "let the built-in rehearsal model answer")
	for name, values := range map[string][]string{"isolation": isolations, "merge": mergeModes, "plan-only": planForms,
		"reasoning-effort": settingValues("reasoning_effort")} {
		p.must(cmd.RegisterFlagCompletionFunc(name, fixedCompletions(values)))
	}
	for _, name := range []string{"model", "timeout", "task-timeout", "max-concurrency"} {
		p.must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	p.must(cmd.RegisterFlagCompletionFunc("resume", p.completeRuns))
	p.must(cmd.MarkFlagDirname("cwd"))
	p.must(cmd.MarkFlagFilename("plan", "json"))
	return cmd
}

// check finds flags that make no sense, alone or together.
func (o *orchestrateOptions) check(cmd *cobra.Command, hasTask bool) error {
	oneOf := func(flag, value string, values []string) error {
		if value == "" || slices.Contains(values, value) {
			return nil
		}
		return usage(cmd, "--%s=%q: must be one of %s", flag, value, strings.Join(values, ", "))
	}
	if err := cmpErr(oneOf("isolation", o.isolation, isolations), oneOf("merge", o.merge, mergeModes), oneOf("plan-only", o.planOnly, planForms)); err != nil {
		return err
	}
	fresh := hasTask || o.planFile != "" || o.planOnly != ""
	switch {
	case o.concurrency < 0 || cmd.Flags().Changed("max-concurrency") && o.concurrency == 0:
		return usage(cmd, "--max-concurrency=%d: must be at least 1", o.concurrency)
	case o.total < 0 || o.each < 0:
		return usage(cmd, "a time-out must be positive")
	case o.list && (fresh || o.resume != ""):
		return usage(cmd, "--list goes with nothing else")
	case o.resume != "" && fresh:
		return usage(cmd, "--resume goes on with a task and a plan that are known; leave TASK, --plan and --plan-only out")
	case o.resume != "" && (cmd.Flags().Changed("merge") || o.isolation != "" || o.dir != ""):
		return usage(cmd, "--resume goes on as the run began; leave --merge, --isolation and --cwd out")
	case !o.list && o.resume == "" && !hasTask && o.planFile == "":
		return usage(cmd, "give a task in quotes, --plan FILE, --resume ID or --list")
	case o.task == "-" && o.planFile == "-":
		return usage(cmd, "standard input can be the task or the plan, not both")
	}
	return nil
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *program) runOrchestrate(cmd *cobra.Command, o *orchestrateOptions, hasTask bool) error {
	if err := o.check(cmd, hasTask); err != nil {
		return err
	}
	if hasTask {
		prompt, err := p.prompt(cmd, &o.runOptions)
		if err != nil {
			return err
		}
		o.task = prompt.Text
	}
	var plan *orchestrate.TaskPlan
	if o.planFile != "" {
		read, err := p.readPlan(o.planFile)
		if err != nil {
			return err
		}
		plan = &read
		if o.planOnly != "" {
			return p.printPlan(read, o)
		}
	}
	cfg, err := p.load(o.settings())
	if err != nil {
		return err
	}
	if o.list {
		return p.listRuns(cfg, o.json)
	}
	app.RoomFor(cfg, max(o.concurrency, orchestrate.DefaultConcurrency)+1)
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	if err := p.findDir(cfg, o); err != nil {
		return err
	}
	b, err := p.start(ctx, cfg, o.demo)
	if err != nil {
		return err
	}
	defer func() {
		if err := b.Close(ctx); err != nil {
			p.log.Warn("the end was not clean", "error", err)
		}
	}()
	if o.planOnly != "" {
		return p.planOnly(ctx, b, o)
	}
	return p.orchestrate(ctx, b, o, plan)
}

// findDir sets the directory to work in: the run's own if it goes on.
func (p *program) findDir(cfg *config.Config, o *orchestrateOptions) (err error) {
	if o.resume != "" {
		meta, err := orchestrate.FindRun(cfg.Home, o.resume)
		if err != nil {
			return err
		}
		o.resume, o.dir = meta.ID, meta.Dir
	}
	o.dir, err = p.directory(o.dir)
	return err
}

// orchestrate runs or resumes, and shows it.
func (p *program) orchestrate(ctx context.Context, b *app.Bridge, o *orchestrateOptions, plan *orchestrate.TaskPlan) error {
	var who approval.Asker = approval.Nobody{}
	if !o.json && p.hasKeyboard() {
		k := p.openKeyboard()
		defer k.close()
		who = asker{keyboard: k}
	}
	if o.yes {
		who = approval.Yes{}
	}
	board := newBoard(p.console)
	board.off = o.json
	opts := b.Orchestration(app.Orchestrating{Workspace: o.dir, Door: "cli", Asker: who}, orchestrate.Options{
		Task: o.task, Plan: plan, Concurrency: o.concurrency, Isolation: orchestrate.Isolation(o.isolation), Merge: orchestrate.MergeMode(o.merge),
		Timeout: o.total, TaskTimeout: o.each, Eager: o.eager, Watch: board.event,
	})
	if o.json {
		opts.Watch = func(e orchestrate.Event) { _ = p.printJSON(e) } // a failure is noticed by the stream
	} else {
		p.header(b, o.dir)
	}
	var r orchestrate.Result
	var err error
	stop := board.tick()
	if o.resume != "" {
		r, err = orchestrate.Resume(ctx, o.resume, opts)
	} else {
		r, err = orchestrate.Run(ctx, opts)
	}
	stop()
	if err == nil {
		err = verdict(r)
	}
	if o.json {
		return p.orchestrated(r, err)
	}
	board.finish(r, err)
	if r.Summary != "" {
		if werr := p.print(harmless(r.Summary) + "\n"); werr != nil {
			return werr
		}
	}
	if err == nil {
		return nil
	}
	return &exitError{code: exitCode(err), err: quietIfCanceled(err)}
}

// verdict is the error that a run comes to which did not fail as such.
func verdict(r orchestrate.Result) error {
	if r.Success {
		return nil
	}
	first := &bridge.Error{Code: bridge.CodeConflict, Message: r.Summary}
	for _, t := range r.Tasks {
		if t.Error != nil {
			first = &bridge.Error{Code: t.Error.Code, Message: fmt.Sprintf("%s: %s", t.ID, t.Error.Error()), Remedy: t.Error.Remedy, Status: t.Error.Status}
			break
		}
	}
	if r.Done == 0 {
		return first
	}
	partly := &bridge.Error{Code: first.Code, Message: "partly done: " + r.Summary, Remedy: "go on with `copilot-bridge orchestrate --resume " + r.Run + "`"}
	return &exitError{code: exitPartly, err: partly}
}

// orchestratedLine is the last line with --json.
type orchestratedLine struct {
	Type string `json:"type"`
	orchestrate.Result
	ExitCode int           `json:"exit_code"`
	Error    *bridge.Error `json:"error,omitempty"`
}

func (p *program) orchestrated(r orchestrate.Result, err error) error {
	out := orchestratedLine{Type: "result", Result: r, ExitCode: exitCode(err)}
	if err != nil {
		e := *bridge.AsError(err)
		e.Message, e.Cause = err.Error(), nil
		out.Error = &e
	}
	if werr := p.printJSON(out); werr != nil || err == nil {
		return werr
	}
	return &exitError{code: out.ExitCode, err: quietIfCanceled(err), told: true}
}

// header says who answers, and where.
func (p *program) header(b *app.Bridge, dir string) {
	c := p.console
	c.line(c.style.dim("copilot-bridge · " + approval.Visible(b.Answers.Detail) + " · " + approval.Visible(shorten(dir, "", p.env.HomeDir))))
	if n := b.Answers.Notice; n != "" {
		c.line(c.style.loud("! " + n))
	}
}

// readPlan reads a plan of the user's.
func (p *program) readPlan(name string) (orchestrate.TaskPlan, error) {
	in := p.env.Stdin
	if name != "-" {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.env.Dir, path)
		}
		f, err := os.Open(path)
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

func (p *program) planOnly(ctx context.Context, b *app.Bridge, o *orchestrateOptions) error {
	if !o.json {
		p.header(b, o.dir)
	}
	opts := b.Orchestration(app.Orchestrating{Workspace: o.dir, Door: "cli", Asker: approval.Nobody{}}, orchestrate.Options{})
	planned, err := orchestrate.MakePlan(ctx, opts.Open, o.dir, o.task, func(s orchestrate.Progress) {
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
