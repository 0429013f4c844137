package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
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
	if err := cmp.Or(oneOf("isolation", o.isolation, isolations), oneOf("merge", o.merge, mergeModes), oneOf("plan-only", o.planOnly, planForms)); err != nil {
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

// runOrchestrate sees to it that with --json the last line is a result
// whatever happens, once the flags are understood.
func (p *program) runOrchestrate(cmd *cobra.Command, o *orchestrateOptions, hasTask bool) error {
	if err := o.check(cmd, hasTask); err != nil {
		return err
	}
	err := p.orchestrateTask(cmd, o, hasTask)
	var fixed *exitError
	if err == nil || !o.json || o.list || o.planOnly != "" || errors.As(err, &fixed) && fixed.told {
		return err
	}
	return p.orchestrated(orchestrate.Result{Tasks: []orchestrate.TaskResult{}, Files: []string{}, CriticalPath: []string{}}, err)
}

func (p *program) orchestrateTask(cmd *cobra.Command, o *orchestrateOptions, hasTask bool) error {
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
	opts := b.Orchestration(app.Orchestrating{Workspace: o.dir, Door: "cli", Asker: who, Defaults: policy.DefaultsRun()}, orchestrate.Options{
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
		err = orchestrateVerdict(r)
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

// header says who answers, and where.
func (p *program) header(b *app.Bridge, dir string) {
	c := p.console
	c.line(c.style.dim("copilot-bridge · " + approval.Visible(b.Answers.Detail) + " · " + approval.Visible(shorten(dir, "", p.env.HomeDir))))
	if n := b.Answers.Notice; n != "" {
		c.line(c.style.loud("! " + n))
	}
}
