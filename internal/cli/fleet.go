package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

func (p *program) fleetCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "fleet",
		Short: "Let several machines of yours work on one task",
		Long: `Let several machines of yours work on one task: "fleet up" begins a fleet on this machine,
"fleet invite" prints a line with which another machine joins it as a worker, and
"orchestrate --fleet" gives the parts of a task to the workers.

Each worker uses its own login, policy and sandbox. Credentials never leave a machine;
docs/guides/fleet.md says what does.`,
		Example: `  copilot-bridge fleet up
  copilot-bridge fleet invite --uses 3
  copilot-bridge fleet status`,
	}, p.fleetUpCommand(), p.fleetInviteCommand(), p.fleetJoinCommand(), p.fleetStatusCommand(), p.fleetDrainCommand(), p.fleetRemoveCommand())
}

func (p *program) fleetUpCommand() *cobra.Command {
	o := &app.FleetUp{}
	cmd := p.command(&cobra.Command{
		Use:   "up",
		Short: "Run the hub of a fleet on this machine",
		Long: `Run the hub of a fleet on this machine until Ctrl-C. The first time it makes the fleet: a
certificate authority, keys, and a queue that is kept on disk. Later it goes on with what
it kept. Workers and runs wait while it is away.

It listens on this machine only, unless --listen says otherwise, as in --listen 0.0.0.0:7422.
Connections are encrypted always, and only members are let in.

With --nats an existing NATS cluster with JetStream carries the fleet instead. It needs the
credentials of a user of one account, and the account's signing key: the hub makes a key
for each member with it. A member that is removed is then refused at once, but its
connection ends up to an hour later.`,
		Example: `  copilot-bridge fleet up
  copilot-bridge fleet up --listen 0.0.0.0:7422 --name hub.example.com
  copilot-bridge fleet up --nats tls://nats.example.com:7422 --creds fleet.creds --account-key account.nk`,
	}, func(ctx context.Context, c call) error { return p.fleetUp(ctx, c, o) })
	f := flagsOf(cmd)
	f.text(&o.Listen, "listen", "`ADDRESS` to listen on (default 127.0.0.1:7422; port 0 picks a free one)")
	f.StringArrayVar(&o.Names, "name", nil, "`NAME` or address by which other machines reach this one; may be repeated")
	f.complete("name", cobra.NoFileCompletions)
	f.text(&o.NATS, "nats", "`URL` of an existing NATS cluster")
	f.StringVar(&o.Creds, "creds", "", "`FILE` with the credentials of a user of the account")
	f.StringVar(&o.AccountKey, "account-key", "", "`FILE` with the account's signing key")
	f.StringVar(&o.CA, "ca", "", "`FILE` with the cluster's certificate authority, if the system does not know it")
	f.json("write a line of JSON when ready")
	return cmd
}

// checkFleetUp finds flags that make no sense together, and resolves the files.
func (p *program) checkFleetUp(cmd *cobra.Command, o *app.FleetUp) error {
	switch {
	case o.NATS == "" && o.Creds+o.AccountKey+o.CA != "":
		return usage(cmd, "--creds, --account-key and --ca go with --nats")
	case o.NATS == "":
		return nil
	case o.Listen != "" || len(o.Names) > 0:
		return usage(cmd, "--listen and --name are for a server of its own; leave them out with --nats")
	case o.Creds == "" || o.AccountKey == "":
		return usage(cmd, "--nats needs --creds and --account-key")
	}
	for _, file := range []*string{&o.Creds, &o.AccountKey, &o.CA} {
		if *file != "" {
			*file = p.path(*file)
		}
	}
	return nil
}

// fleetReady is what "fleet up" writes as JSON when members are let in.
type fleetReady struct {
	Fleet string   `json:"fleet"`
	URLs  []string `json:"urls"`
}

func (p *program) fleetUp(ctx context.Context, c call, o *app.FleetUp) error {
	if err := p.checkFleetUp(c.cmd, o); err != nil {
		return err
	}
	stop := p.progress().Begin("starting the hub")
	h, err := app.StartFleet(ctx, p.options(c.cfg), *o)
	stop()
	if err != nil {
		return err
	}
	defer p.close(ctx, h)
	if p.json {
		if err := p.printJSON(fleetReady{h.Fleet(), h.URLs()}); err != nil {
			return err
		}
	} else {
		p.console.Line("the hub of fleet " + h.Fleet() + " listens at " + strings.Join(h.URLs(), ", ") + "   (Ctrl-C to stop; what it knows is kept)")
		if o.NATS == "" && !reachable(h.URLs()) {
			p.console.Dim("  only this machine can connect; --listen 0.0.0.0:7422 lets others in")
		}
		if len(h.Before) > 0 {
			p.console.Warn("machines that have joined look for it at " + strings.Join(h.Before, ", ") + "; they have to join again, unless it listens there")
		}
		p.console.Dim("  next: copilot-bridge fleet invite")
	}
	select {
	case <-h.Done():
		return h.Err()
	case <-ctx.Done():
		return nil
	}
}

// reachable says whether another machine may reach one of these.
func reachable(urls []string) bool {
	return slices.ContainsFunc(urls, func(u string) bool {
		return !strings.Contains(u, "127.0.0.1") && !strings.Contains(u, "localhost") && !strings.Contains(u, "[::1]")
	})
}

// maxInvitationLife is how long an invitation may be good at most.
const maxInvitationLife = 30 * 24 * time.Hour

func (p *program) fleetInviteCommand() *cobra.Command {
	var coordinator bool
	var r fleet.InviteRequest
	cmd := p.command(&cobra.Command{
		Use:   "invite",
		Short: "Print a line with which another machine joins the fleet",
		Long: `Print a line with which another machine joins the fleet. It is a secret: whoever has it can
join until it is used up or has expired. Send it as you would a password.

Labels say what a machine is for or has, as gpu=yes. "orchestrate --fleet --label gpu=yes"
gives work only to workers with that label. Those of an invitation are given by you;
a worker can add others by itself.

With --coordinator the machine may give work to the fleet and manage it, as this one may;
it joins with "copilot-bridge fleet join".`,
		Example: `  copilot-bridge fleet invite
  copilot-bridge fleet invite --uses 10 --for 1h --label gpu=yes
  copilot-bridge fleet invite --coordinator
  copilot-bridge fleet invite | ssh build2 'copilot-bridge worker --join - --capacity 4'`,
	}, func(ctx context.Context, c call) error {
		switch {
		case r.Uses < 1:
			return usage(c.cmd, "--uses=%d: must be at least 1", r.Uses)
		case r.For < time.Minute || r.For > maxInvitationLife:
			return usage(c.cmd, "--for=%s: must be from 1m to %s", r.For, maxInvitationLife)
		case coordinator && len(r.Labels) > 0:
			return usage(c.cmd, "--label is for workers; leave it out with --coordinator")
		}
		if err := checkLabels(c.cmd, r.Labels); err != nil {
			return err
		}
		if r.Role = fleet.RoleWorker; coordinator {
			r.Role = fleet.RoleCoordinator
		}
		reply, err := app.InviteToFleet(ctx, p.options(c.cfg), r)
		if err != nil {
			return err
		}
		return p.showInvitation(reply, r)
	})
	f := flagsOf(cmd)
	f.labels(&r.Labels, "`LABEL` for the machines that join, as k=v; may be repeated")
	f.IntVar(&r.Uses, "uses", 1, "how many machines may join with the line")
	f.DurationVar(&r.For, "for", 24*time.Hour, "how long the line is good, as 2h")
	f.complete("uses", cobra.NoFileCompletions)
	f.complete("for", cobra.NoFileCompletions)
	f.BoolVar(&coordinator, "coordinator", false, "the machine may give work and manage the fleet")
	f.json("write JSON")
	return cmd
}

// showInvitation writes the line alone to standard output, for a pipe.
func (p *program) showInvitation(reply fleet.InviteReply, r fleet.InviteRequest) error {
	if p.json {
		return p.printJSON(reply)
	}
	command := "copilot-bridge worker --join -"
	if r.Role == fleet.RoleCoordinator {
		command = "copilot-bridge fleet join -"
	}
	p.console.Dim(fmt.Sprintf("good for %s until %s; it is a secret", plural(r.Uses, "machine"), reply.Expires.Local().Format("2006-01-02 15:04")))
	p.console.Dim("on the other machine: " + command + "   and paste the line")
	_, err := fmt.Fprintln(p.out, reply.Line) // whole, however long
	return err
}

func (p *program) fleetJoinCommand() *cobra.Command {
	name := ""
	cmd := p.command(&cobra.Command{
		Use:   "join LINE",
		Short: "Join a fleet as a machine that gives work",
		Long: `Join a fleet as a machine that gives work, with the line that "fleet invite --coordinator" has
printed. LINE is a secret that other users of this machine can see in the list of processes:
prefer - for standard input, or @FILE.

A machine that does work joins with "copilot-bridge worker --join LINE".`,
		Example: `  copilot-bridge fleet join -
  copilot-bridge fleet join @line.txt
  ssh hub copilot-bridge fleet invite --coordinator | copilot-bridge fleet join -`,
		Args: takes(cobra.ExactArgs(1), "one line"),
	}, func(ctx context.Context, c call) error {
		line, err := p.invitation(c.cmd, c.cfg, c.args[0])
		if err != nil {
			return err
		}
		m, err := app.JoinFleet(ctx, p.options(c.cfg), line, fleet.RoleCoordinator, name)
		if err != nil {
			return err
		}
		if p.json {
			return p.printJSON(fleetMember{Member: m.ID, Fleet: m.Fleet})
		}
		p.console.Line("this machine is " + m.ID + " in the fleet " + m.Fleet)
		p.console.Dim("  next: copilot-bridge fleet status")
		return nil
	})
	f := flagsOf(cmd)
	f.json("write JSON")
	f.text(&name, "name", "`NAME` of this machine in the fleet (default: its host name)")
	return cmd
}

// fleetMember names a machine of the fleet as JSON.
type fleetMember struct {
	Member string `json:"member"`
	Fleet  string `json:"fleet,omitempty"`
}

// maxInvitation is more than any invitation has.
const maxInvitation = 16 << 10

// invitation reads a line of "fleet invite": as it stands, from standard input for
// -, or from a file for @FILE. From here on no output shows it.
func (p *program) invitation(cmd *cobra.Command, cfg *config.Config, arg string) (string, error) {
	line, from := arg, "the argument"
	if file, isFile := strings.CutPrefix(arg, "@"); arg == "-" || isFile {
		if from = file; arg == "-" {
			from = "standard input"
			if p.env.IsTerminal(p.env.Stdin) {
				p.console.Line("paste the line, then press Enter and Ctrl-D:")
			}
		}
		data, err := p.read(file, maxInvitation)
		if err != nil {
			return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "the line of the invitation cannot be read from " + from, Cause: pathCause(err), Remedy: "name an existing file, or give - for standard input"}
		}
		line = string(data)
	}
	if line = fleet.InvitationLine(line); line == "" {
		return "", usage(cmd, "%s has no line of `copilot-bridge fleet invite`", from)
	}
	p.scrub.Learn(append(cfg.Secrets(), line))
	return line, nil
}

func (p *program) fleetStatusCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use:   "status",
		Short: "Show the machines, queues and runs of the fleet",
		Long: `Show the workers of the fleet, what they are doing and how far away they are, the tasks that
wait, the coordinators, and the latest runs. With --json all runs are listed.`,
		Example: `  copilot-bridge fleet status
  copilot-bridge fleet status --json | jq -r '.workers[] | select(.online) | .name'`,
	}, func(ctx context.Context, c call) error {
		s, err := app.FleetStatus(ctx, p.options(c.cfg))
		if err != nil {
			return err
		}
		return p.show(s, view.Fleet(s, time.Now()))
	})
	flagsOf(cmd).json("write JSON")
	return cmd
}

func (p *program) fleetDrainCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use:   "drain WORKER",
		Short: "Let a worker finish what it has begun, and give it nothing new",
		Long: `Let a worker finish what it has begun, and give it nothing new. It takes work again when its
program is started anew. WORKER is its name, its id or the beginning of one.`,
		Example:           `  copilot-bridge fleet drain build2`,
		Args:              takes(cobra.ExactArgs(1), "one worker"),
		ValidArgsFunction: p.completeMembers(false),
	}, func(ctx context.Context, c call) error {
		id, err := app.ChangeMember(ctx, p.options(c.cfg), c.args[0], fleet.Drain)
		if err != nil {
			return err
		}
		return p.show(fleetMember{Member: id}, id+" takes nothing new\n")
	})
	flagsOf(cmd).json("write JSON")
	return cmd
}

func (p *program) fleetRemoveCommand() *cobra.Command {
	yes := false
	cmd := p.command(&cobra.Command{
		Use:   "remove MACHINE",
		Short: "Remove a machine from the fleet",
		Long: `Remove a machine from the fleet. Its key is refused at once, and what it was doing is done
by another. To come back it needs a new invitation. MACHINE is the name or the id of a
worker or a coordinator, or the beginning of an id.`,
		Example: `  copilot-bridge fleet remove build2
  copilot-bridge fleet remove build2 --yes`,
		Args:              takes(cobra.ExactArgs(1), "one machine"),
		ValidArgsFunction: p.completeMembers(true),
	}, func(ctx context.Context, c call) error {
		if !yes {
			if err := p.confirm(ctx, c, "remove", "Remove "+c.args[0]+" from the fleet?", "nothing was removed"); err != nil {
				return err
			}
		}
		id, err := app.ChangeMember(ctx, p.options(c.cfg), c.args[0], fleet.Remove)
		if err != nil {
			return err
		}
		return p.show(fleetMember{Member: id}, id+" was removed\n")
	})
	f := flagsOf(cmd)
	f.yes(&yes, "do not ask")
	f.json("write JSON")
	return cmd
}

// lookWithin bounds how long the shell waits for the names of workers.
const lookWithin = 2 * time.Second

// completeMembers completes the ids of workers and, if all, of coordinators.
func (p *program) completeMembers(all bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.completions(func(ctx context.Context, cfg *config.Config) (out []cobra.Completion, err error) {
			ctx, cancel := context.WithTimeout(ctx, lookWithin)
			defer cancel()
			s, err := app.FleetStatus(ctx, p.options(cfg))
			for _, w := range s.Workers {
				out = append(out, cobra.CompletionWithDesc(w.ID, w.Name))
			}
			for _, m := range s.Coordinators {
				if all {
					out = append(out, cobra.CompletionWithDesc(m.ID, m.Name+", coordinator"))
				}
			}
			return out, err
		})(cmd, args, typed)
	}
}

// labels is a flag that may be repeated.
func (f flagSet) labels(to *[]string, about string) {
	f.StringArrayVar(to, "label", nil, about)
	f.complete("label", cobra.NoFileCompletions)
}

func checkLabels(cmd *cobra.Command, labels []string) error {
	for _, l := range labels {
		if !fleet.IsLabel(l) {
			return usage(cmd, "--label=%q: must be a name or name=value, as gpu=yes", l)
		}
	}
	return nil
}
