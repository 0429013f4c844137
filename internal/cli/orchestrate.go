package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// orchestrateOptions are the flags and arguments of orchestrate.
type orchestrateOptions struct {
	runOptions
	planFile, planOnly, isolation, merge, discard string
	concurrency                                   int
	total, each                                   time.Duration
	eager, list                                   bool

	fleet  bool
	alone  bool // --fleet=false: without the fleet, though the run was begun with it
	labels []string
	taken  string // the run to take over from another machine of the fleet
}

func (p *program) orchestrateCommand() *cobra.Command {
	o := &orchestrateOptions{}
	cmd := complete(&cobra.Command{
		Use:   "orchestrate [TASK…]",
		Short: "Let Copilot do a large task in parts, several at a time",
		Long: `Let Copilot do a large task in parts, several at a time.

Copilot plans parts and their dependencies. Each part is done in its own session, in a git
repository in its own worktree, as soon as the parts it depends on are done. The results
are merged and added to your files as uncommitted changes (--merge tree) or put on a
branch (--merge branch). Your uncommitted work is never overwritten: if it conflicts,
nothing is written and the result stays on a branch. A conflict between parts is given to
Copilot once; if it remains, it is reported and both versions are kept.

Runs are recorded in ~/.copilot-bridge/runs. --resume continues an interrupted or partly
failed run; --discard removes its worktrees, branches and record.

With --fleet the workers of your fleet do the parts; see "copilot-bridge fleet". That needs a
git repository. --resume also finds runs of other machines; with --fleet=false the rest of
such a run is done here.

With --json standard output carries one event per line, and "result" last. Consent works
as in "run".`,
		Example: `  copilot-bridge orchestrate "add tests for every package" --max-concurrency 4
  copilot-bridge orchestrate "port the parser to Go" --plan-only=mermaid
  copilot-bridge orchestrate "port the parser to Go" --plan plan.json --merge branch
  copilot-bridge orchestrate "add tests for every package" --fleet --label gpu=yes
  copilot-bridge orchestrate --resume last
  copilot-bridge orchestrate --discard 20260102-150405-a1b2c3
  copilot-bridge orchestrate "…" --json | jq -r 'select(.type=="task_complete") | .task'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.task = strings.Join(args, " ")
			return p.runOrchestrate(cmd, o, len(args) > 0)
		},
	})
	f := flagsOf(cmd)
	f.dir(&o.dir, "cwd", "C", "work in this `DIR` (default: the current directory)")
	p.modelFlag(f, "`MODEL` to use")
	f.setting("reasoning_effort", "reasoning-effort", "reasoning `EFFORT` of the model")
	f.IntVarP(&o.concurrency, "max-concurrency", "n", 0, fmt.Sprintf("at most `N` parts at a time (default %d)", orchestrate.DefaultConcurrency))
	f.choice(&o.isolation, "isolation", "", "`WHERE` parts work (default worktree in a git repository)",
		string(orchestrate.IsolationWorktree), string(orchestrate.IsolationShared))
	f.choice(&o.merge, "merge", string(orchestrate.MergeTree), "`WHERE` the work goes", string(orchestrate.MergeTree), string(orchestrate.MergeBranch))
	f.StringVar(&o.planFile, "plan", "", "carry out the plan in this `FILE` (JSON; - for standard input)")
	f.choice(&o.planOnly, "plan-only", "", "print the plan and do nothing, in this `FORMAT`", "text", "json", "mermaid")
	f.Lookup("plan-only").NoOptDefVal = "text"
	f.StringVar(&o.resume, "resume", "", "resume the run `ID`, or the last")
	f.BoolVar(&o.list, "list", false, "list all runs")
	f.StringVar(&o.discard, "discard", "", "remove the run `ID` with its worktrees and branches, or all that were interrupted")
	f.DurationVar(&o.total, "timeout", 0, "longest `TIME` the whole may take, such as 2h; parts finished by then are merged")
	f.DurationVar(&o.each, "task-timeout", 0, "longest `TIME` one part may take, such as 20m")
	f.BoolVar(&o.eager, "eager", false, "start every part the moment it can, even where that may delay others")
	f.BoolVar(&o.fleet, "fleet", false, "let the workers of the fleet do the parts")
	f.labels(&o.labels, "with --fleet: only workers with this `LABEL`, as gpu=yes; may be repeated")
	f.json("write events and the result as JSON lines")
	f.yes(&o.yes, "consent to everything that would be asked")
	f.demo()
	for _, name := range []string{"timeout", "task-timeout", "max-concurrency"} {
		f.complete(name, cobra.NoFileCompletions)
	}
	f.complete("resume", p.completions(runIDs))
	f.complete("discard", p.completions(runIDs))
	must(cmd.MarkFlagFilename("plan", "json"))
	return cmd
}

// check finds flags that make no sense, alone or together.
func (o *orchestrateOptions) check(cmd *cobra.Command, hasTask bool) error {
	fresh := hasTask || o.planFile != "" || o.planOnly != ""
	switch {
	case o.concurrency < 0 || cmd.Flags().Changed("max-concurrency") && o.concurrency == 0:
		return usage(cmd, "--max-concurrency=%d: must be at least 1", o.concurrency)
	case o.total < 0 || o.each < 0:
		return usage(cmd, "a time-out must be positive")
	case o.list && (len(o.labels) > 0 || fresh || o.resume != "" || o.discard != ""):
		return usage(cmd, "--list cannot be combined with other flags than --fleet and --json")
	case o.discard != "" && (fresh || o.resume != ""):
		return usage(cmd, "--discard can be combined only with --yes and --json")
	case o.resume != "" && fresh:
		return usage(cmd, "--resume keeps the task and plan of the run; leave TASK, --plan and --plan-only out")
	case o.resume != "" && (cmd.Flags().Changed("merge") || o.isolation != "" || o.dir != ""):
		return usage(cmd, "--resume keeps the settings of the run; leave --merge, --isolation and --cwd out")
	case !o.list && o.discard == "" && o.resume == "" && !hasTask && o.planFile == "":
		return usage(cmd, "give a task, --plan FILE, --resume ID, --discard ID or --list")
	case len(o.labels) > 0 && !o.fleet:
		return usage(cmd, "--label chooses among the workers of a fleet; give --fleet too")
	case o.fleet && o.isolation == string(orchestrate.IsolationShared):
		return usage(cmd, "--fleet needs a worktree for each part; leave --isolation=shared out")
	case o.fleet && (o.planOnly != "" || o.discard != ""):
		return usage(cmd, "--fleet does not go with --plan-only and --discard")
	case o.task == "-" && o.planFile == "-":
		return usage(cmd, "standard input can be the task or the plan, not both")
	}
	return checkLabels(cmd, o.labels)
}

// runOrchestrate writes a result as the last line with --json, also if the run
// could not be started.
func (p *program) runOrchestrate(cmd *cobra.Command, o *orchestrateOptions, hasTask bool) error {
	if err := o.check(cmd, hasTask); err != nil {
		return err
	}
	o.alone = cmd.Flags().Changed("fleet") && !o.fleet
	err := p.orchestrateTask(cmd, o, hasTask)
	if !p.json || o.list || o.discard != "" || o.planOnly != "" {
		return err
	}
	return withResult(err, func(err error, code int) error {
		return p.activity(view.Options{}).RunEnded(orchestrate.Result{Tasks: []orchestrate.TaskResult{}, Files: []string{}, CriticalPath: []string{}}, err, code)
	})
}

func (p *program) orchestrateTask(cmd *cobra.Command, o *orchestrateOptions, hasTask bool) error {
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
	if hasTask { // after the plan, which may be what is piped in
		prompt, err := p.prompt(cmd, &o.runOptions)
		if err != nil {
			return err
		}
		o.task = prompt.Text
	}
	return p.configured(cmd, nil, func(ctx context.Context, c call) error {
		switch {
		case o.list && o.fleet:
			return p.listFleetRuns(ctx, c.cfg)
		case o.list:
			return p.listRuns(c.cfg)
		case o.discard != "":
			return p.discardRuns(ctx, c, o)
		}
		app.RoomFor(c.cfg, max(o.concurrency, orchestrate.DefaultConcurrency)+1)
		if o.fleet {
			if _, err := app.FleetMember(c.cfg, fleet.RoleCoordinator); err != nil {
				return err
			}
		}
		if err := p.findDir(ctx, c.cfg, o); err != nil {
			return err
		}
		if o.resume == "" && !p.json {
			p.mentionInterrupted(c.cfg, o.dir)
		}
		opts := p.options(c.cfg)
		opts.Workspace = o.dir
		b, err := p.start(ctx, opts)
		if err != nil {
			return err
		}
		defer p.close(ctx, b)
		if o.planOnly != "" {
			return p.planOnly(ctx, b, o)
		}
		return p.orchestrate(ctx, b, o, plan)
	})
}

// findDir sets the directory to work in: that of the run, if one is resumed. A run
// that began on another machine of the fleet continues in the directory given here.
func (p *program) findDir(ctx context.Context, cfg *config.Config, o *orchestrateOptions) (err error) {
	if o.resume != "" {
		meta, err := p.findRun(ctx, cfg, o)
		if err != nil {
			return err
		}
		if o.resume = meta.ID; o.taken == "" {
			o.dir, o.fleet = meta.Dir, meta.Remote && !o.alone
		}
	}
	o.dir, err = p.directory(o.dir, "--cwd")
	return err
}

// orchestrate runs or resumes, and shows it.
func (p *program) orchestrate(ctx context.Context, b *app.Bridge, o *orchestrateOptions, plan *orchestrate.TaskPlan) error {
	k := p.keyboard()
	defer k.Close()
	who := k.Asker(nil)
	if o.yes {
		who = approval.Yes{}
	}
	shows := p.activity(view.Options{})
	opts := b.Orchestration(o.guarding(who), orchestrate.Options{
		Task: o.task, Plan: plan, Concurrency: o.concurrency, Isolation: orchestrate.Isolation(o.isolation), Merge: orchestrate.MergeMode(o.merge),
		Timeout: o.total, TaskTimeout: o.each, Eager: o.eager, Watch: shows.RunEvent,
	})
	if o.fleet {
		f, err := p.joinFleet(ctx, b, o, who, &opts)
		if err != nil {
			return err
		}
		defer func() {
			if err := f.Close(); err != nil {
				p.log.Warn("fleet.not_closed", "error", err)
			}
		}()
	}
	p.header(b, o.dir)
	stop := shows.Begin("planning")
	r, err := b.Orchestrate(ctx, o.resume, opts)
	stop()
	r.Answers = b.Answers.Answers
	if err == nil {
		err = orchestrateVerdict(r)
	}
	if werr := shows.RunEnded(r, err, exitCode(err)); werr != nil {
		return werr
	}
	if r.Summary != "" && !p.json {
		if werr := p.print(view.Harmless(r.Summary) + "\n"); werr != nil {
			return werr
		}
	}
	return ended(err)
}

// orchestrateVerdict is the error of a run that ended without success.
func orchestrateVerdict(r orchestrate.Result) error {
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
	partly := &bridge.Error{Code: first.Code, Message: "partly done: " + r.Summary, Remedy: "resume it with `copilot-bridge orchestrate --resume " + r.Run + "`"}
	return &exitError{code: exitPartly, err: partly}
}
