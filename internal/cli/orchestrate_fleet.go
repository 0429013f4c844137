package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

func (o *orchestrateOptions) guarding(who approval.Asker) app.Guarding {
	return app.Guarding{Workspace: o.dir, Door: "cli", Client: "copilot-bridge", Asker: who, Defaults: policy.DefaultsRun()}
}

// joinFleet connects a run to the fleet, and says if no worker is there for it. A
// run of another machine is brought here first.
func (p *program) joinFleet(ctx context.Context, b *app.Bridge, o *orchestrateOptions, who approval.Asker, opts *orchestrate.Options) (*app.FleetRun, error) {
	stop := p.progress().Begin("connecting to the fleet")
	defer stop()
	f, err := b.UseFleet(ctx, o.guarding(who), o.labels, opts)
	if err != nil {
		return nil, err
	}
	if o.taken != "" {
		if err := f.Take(ctx, o.taken, *opts); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	switch missing, err := f.Missing(ctx); {
	case err != nil:
		p.console.Warn("the hub of the fleet does not say which workers are there: " + view.Shown(err).Message)
	case missing != "":
		p.console.Warn(missing)
	}
	return f, nil
}

// askFleet bounds the question whether the fleet knows a run.
const askFleet = 10 * time.Second

// findRun finds the run to resume: on this machine or, where it is a coordinator,
// in the fleet. The fleet's record of one of its runs is the newer one.
func (p *program) findRun(ctx context.Context, cfg *config.Config, o *orchestrateOptions) (orchestrate.Meta, error) {
	local, err := orchestrate.FindRun(cfg.Home, o.resume)
	if o.alone {
		return local, err
	}
	if err == nil && o.resume != "last" && !local.Remote && !o.fleet || !app.InFleet(cfg) {
		if err == nil && local.Remote {
			_, err = app.FleetMember(cfg, fleet.RoleCoordinator)
		} else if bridge.CodeOf(err) == bridge.CodeNotFound {
			if only := app.OnlyWorker(cfg); only != nil {
				err = only
			}
		}
		return local, err
	}
	ctx, cancel := context.WithTimeout(ctx, askFleet)
	defer cancel()
	r, fleetErr := app.FindFleetRun(ctx, p.options(cfg), o.resume)
	switch {
	case fleetErr != nil && err == nil && !local.Remote && !o.fleet:
		if bridge.CodeOf(fleetErr) != bridge.CodeNotFound {
			p.console.Warn("the fleet was not asked for newer runs: " + view.Shown(fleetErr).Message)
		}
		return local, nil
	case fleetErr != nil && bridge.CodeOf(fleetErr) == bridge.CodeNotFound && !o.fleet && err != nil:
		return local, err
	case fleetErr != nil:
		return local, fleetErr
	case err == nil && o.resume == "last" && !o.fleet && local.ID > r.Run: // ids begin with the time
		return local, nil
	case err == nil && local.ID == r.Run:
		if o.dir == "" {
			o.dir = local.Dir
		}
	}
	o.taken, o.fleet = r.Run, true
	return orchestrate.Meta{ID: r.Run}, nil
}

// listFleetRuns lists the runs that the fleet knows.
func (p *program) listFleetRuns(ctx context.Context, cfg *config.Config) error {
	s, err := app.FleetStatus(ctx, p.options(cfg))
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]fleet.RunStatus{}, s.Runs...))
	}
	if len(s.Runs) == 0 {
		p.console.Line("the fleet knows no runs yet")
		return nil
	}
	slices.SortFunc(s.Runs, func(a, b fleet.RunStatus) int { return strings.Compare(b.Run, a.Run) })
	var rows [][]string
	for _, r := range s.Runs {
		rows = append(rows, view.FleetRun(r))
	}
	return p.print(view.Table(rows, 0))
}
