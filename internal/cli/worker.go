package cli

import (
	"context"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

type workerOptions struct {
	join, name, root string
	capacity         int
	labels           []string
}

// maxCapacity bounds how many tasks a worker does at a time.
const maxCapacity = 256

func (p *program) workerCommand() *cobra.Command {
	o := &workerOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "worker",
		Short: "Do parts of other machines' tasks",
		Long: `Do parts of other machines' tasks, until Ctrl-C. The first time --join takes the line that
"copilot-bridge fleet invite" has printed; from then on this machine is a member, and the
command needs no line. LINE is a secret that other users of this machine can see in the list
of processes: prefer --join - for standard input, or --join @FILE.

Work is done with this machine's own login, under its own policy and in its own sandbox; the
policy of who gave the task counts besides, and the stricter answer wins. What needs consent
is asked there. A worker on which nobody is logged in takes no tasks, unless --demo is
given: then the demo model answers, for tasks that were given with --demo.

On the first Ctrl-C it finishes what it has begun and takes nothing new; the second ends it,
and its tasks are given to others.`,
		Example: `  copilot-bridge worker --join -
  copilot-bridge worker --join @line.txt --capacity 4 --label gpu=yes
  copilot-bridge worker`,
	}, func(ctx context.Context, c call) error { return p.work(ctx, c, o) })
	f := flagsOf(cmd)
	f.text(&o.join, "join", "join the fleet with this `LINE`; - for standard input, @FILE for a file")
	f.IntVarP(&o.capacity, "capacity", "n", 2, "at most `N` tasks at a time")
	f.complete("capacity", cobra.NoFileCompletions)
	f.labels(&o.labels, "`LABEL` of this machine, as k=v; may be repeated")
	f.dir(&o.root, "workspace-root", "", "keep repositories and work in this `DIR` (default: in the bridge's home)")
	f.text(&o.name, "name", "`NAME` of this machine in the fleet (default: its host name)")
	p.modelFlag(f, "`MODEL` to use where the task names none")
	f.demo()
	return cmd
}

func (p *program) work(ctx context.Context, c call, o *workerOptions) error {
	switch {
	case o.capacity < 1 || o.capacity > maxCapacity:
		return usage(c.cmd, "--capacity=%d: must be from 1 to %d", o.capacity, maxCapacity)
	case o.name != "" && o.join == "":
		return usage(c.cmd, "--name is given when the machine joins, with --join")
	}
	if err := checkLabels(c.cmd, o.labels); err != nil {
		return err
	}
	if o.root != "" {
		if o.root = p.path(o.root); os.MkdirAll(o.root, 0o700) != nil {
			return usage(c.cmd, "--workspace-root=%s: the directory cannot be made", o.root)
		}
	}
	if o.join != "" {
		line, err := p.invitation(c.cmd, c.cfg, o.join)
		if err != nil {
			return err
		}
		m, err := app.JoinFleet(ctx, p.options(c.cfg), line, fleet.RoleWorker, o.name)
		if err != nil {
			return err
		}
		p.console.Line("this machine is " + m.ID + " in the fleet " + m.Fleet)
	}
	member, err := app.FleetMember(c.cfg, fleet.RoleWorker)
	if err != nil {
		return err
	}
	app.RoomFor(c.cfg, o.capacity)
	c.in.says.Store("finishing what is begun, taking nothing new… (Ctrl-C again to leave it to others)")
	w := app.Worker{Member: member, Capacity: o.capacity, Labels: labelMap(o.labels), Root: o.root,
		Tell: func(line string) { p.console.Line(approval.Visible(line)) }}
	for again := false; ; again = true {
		ended, err := p.workUntilLogin(ctx, c, w, again)
		if ended {
			return err
		}
	}
}

// workUntilLogin works until it is told to end. Where the demo model would answer
// only because nobody was logged in, it takes no tasks, and ends when somebody
// has logged in: too much depends on who answers.
func (p *program) workUntilLogin(ctx context.Context, c call, w app.Worker, again bool) (ended bool, err error) {
	opts := p.options(c.cfg)
	opts.Patient = true
	// What is begun is finished after the first signal; the bridge lives on for it.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	b, err := p.start(alive, opts)
	if err != nil {
		return true, err
	}
	defer p.close(alive, b)
	switch {
	case !again && b.Answers.Kind == bridge.AnswersDemo && !c.cfg.Demo: // it takes no tasks, and says so
		p.console.Dim("copilot-bridge · " + w.Member.Fleet)
	case !again:
		p.header(b, w.Member.Fleet)
	default:
		p.console.Line("somebody has logged in; answers: " + b.Answers.Detail)
	}
	working, leave := context.WithCancel(ctx)
	loggedIn := false
	var watch sync.WaitGroup
	watch.Go(func() {
		if loggedIn = b.AccountAppears(working); loggedIn {
			leave()
		}
	})
	err = b.Work(alive, working, w)
	leave()
	watch.Wait()
	if loggedIn && ctx.Err() == nil && err == nil {
		return false, nil
	}
	return true, err
}

// labelMap are labels as a worker tells them.
func labelMap(labels []string) map[string]string {
	out := map[string]string{}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		out[k] = v
	}
	return out
}
