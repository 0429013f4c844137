package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/upkeep"
)

type cleanOptions struct{ dryRun, all bool }

func (p *program) cleanCommand() *cobra.Command {
	o := &cleanOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "clean",
		Short: "Remove files that are no longer needed",
		Long: `Remove leftovers: state of processes that were killed, sessions past sessions.keep_days and
sessions.keep, worktrees of deleted runs, caches of deleted workspaces, and runtime logs
older than two weeks. Files in use are not touched.

With --all also conversations that are not in the list of sessions, and originals saved
when an interrupted patch was undone, if they are older than sessions.keep_days.

Interrupted runs are listed and kept; remove them with "orchestrate --discard".`,
		Example: `  copilot-bridge clean --dry-run
  copilot-bridge clean
  copilot-bridge clean --all --dry-run --json | jq -r '.leftovers[].name'`,
	}, func(ctx context.Context, c call) error { return p.clean(ctx, c.cfg, o) })
	f := flagsOf(cmd)
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "show what would be removed, and remove nothing")
	f.BoolVar(&o.all, "all", false, "also remove what you might still want, see above")
	f.json("write JSON")
	return cmd
}

// cleaned is what clean writes as JSON.
type cleaned struct {
	DryRun    bool          `json:"dry_run"`
	Leftovers []cleanedItem `json:"leftovers"`
	Bytes     int64         `json:"bytes"` // of what was removed, or would be
	Runs      []string      `json:"interrupted_runs"`
}

type cleanedItem struct {
	upkeep.Leftover
	Removed bool          `json:"removed"`
	Error   *bridge.Error `json:"error,omitempty"`
}

func (p *program) clean(ctx context.Context, cfg *config.Config, o *cleanOptions) error {
	stop := p.progress().Begin("looking for what nobody needs")
	defer stop()
	if !o.dryRun {
		if _, err := supervise.Reap(app.Records(cfg)); err != nil { // a runtime without its bridge may still write
			return err
		}
	}
	found, err := upkeep.Leftovers(ctx, p.options(cfg).Upkeep(), o.all)
	if err != nil {
		return err
	}
	out := cleaned{DryRun: o.dryRun, Leftovers: []cleanedItem{}, Runs: []string{}}
	var failed error
	for _, l := range found {
		item := cleanedItem{Leftover: l}
		if !o.dryRun {
			err := ctx.Err()
			if err == nil {
				err = l.Remove()
			}
			if item.Removed = err == nil; err != nil {
				failed, item.Error = err, view.Shown(err)
			}
		}
		if item.Error == nil {
			out.Bytes += l.Bytes
		}
		out.Leftovers = append(out.Leftovers, item)
	}
	runs, err := orchestrate.Runs(cfg.Home)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.State == orchestrate.StateInterrupted {
			out.Runs = append(out.Runs, r.ID)
		}
	}
	stop()
	if failed != nil {
		failed = &exitError{code: exitPartly, err: failed}
	}
	return p.showFailed(out, p.cleanedText(out), failed)
}

func (p *program) cleanedText(c cleaned) string {
	var rows [][]string
	removed := 0
	for _, l := range c.Leftovers {
		about := l.About
		if l.Error != nil {
			about = "not removed: " + l.Error.Error()
		} else {
			removed++
		}
		rows = append(rows, []string{l.Kind, view.Bytes(l.Bytes), p.short(l.Name), view.Fit(about, 100)})
	}
	var b strings.Builder
	b.WriteString(view.Table(rows, 0))
	for _, run := range c.Runs {
		fmt.Fprintf(&b, "run %s was interrupted: copilot-bridge orchestrate --resume %s, or --discard %s\n", run, run, run)
	}
	verb := "removed"
	if c.DryRun {
		verb = "would be removed"
	}
	fmt.Fprintf(&b, "%s (%s) %s\n", plural(removed, "item"), view.Bytes(c.Bytes), verb)
	return b.String()
}
