package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/upkeep"
)

type deleteOptions struct{ all, yes bool }

func (p *program) sessionsDeleteCommand() *cobra.Command {
	o := &deleteOptions{}
	cmd := p.command(&cobra.Command{
		Use:     "delete ID…",
		Aliases: []string{"rm"},
		Short:   "Delete sessions and their conversations",
		Example: `  copilot-bridge sessions delete 41bd9d7b
  copilot-bridge sessions delete --all --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.all && len(args) > 0:
				return usage(cmd, "give ids or --all, not both")
			case !o.all && len(args) == 0:
				return usage(cmd, "give the ids of the sessions to delete, or --all")
			}
			return nil
		},
		ValidArgsFunction: p.completeSessions,
	}, func(ctx context.Context, c call) error { return p.deleteSessions(ctx, c, o) })
	f := flagsOf(cmd)
	f.BoolVar(&o.all, "all", false, "delete every session")
	f.yes(&o.yes, "do not ask for confirmation")
	f.json("write JSON")
	return cmd
}

// deletion is what delete writes as JSON.
type deletion struct {
	Deleted []string `json:"deleted"`
	// Listed are those that could only be taken off the list.
	Listed []string `json:"only_unlisted,omitempty"`
}

func (p *program) deleteSessions(ctx context.Context, c call, o *deleteOptions) error {
	store := app.Store(c.cfg)
	entries, err := chosen(ctx, store, c.args)
	if o.all {
		entries, err = store.List(ctx)
	}
	if err != nil {
		return err
	}
	if o.all && !o.yes && len(entries) > 0 {
		question := fmt.Sprintf("Delete %s and all that was said in them?", plural(len(entries), "session"))
		if err := p.confirm(ctx, c, "--all", question, "nothing was deleted"); err != nil {
			return err
		}
	}
	done, why, err := p.delete(ctx, c.cfg, entries)
	if err != nil {
		return err
	}
	if err := p.show(done, plural(len(done.Deleted), "session")+" deleted\n"); err != nil || len(done.Listed) == 0 {
		return err
	}
	return &exitError{code: exitPartly, told: true, err: &bridge.Error{Code: bridge.CodeOf(why), Cause: why,
		Message: plural(len(done.Listed), "session") + " could only be taken off the list; what was said in them is still on the disk",
		Remedy:  bridge.AsError(why).Remedy}}
}

// chosen finds the sessions that ids stand for, each once.
func chosen(ctx context.Context, store *sessionstore.Store, ids []string) ([]sessionstore.Entry, error) {
	var entries []sessionstore.Entry
	seen := map[string]bool{}
	for _, id := range ids {
		e, err := store.Get(ctx, id)
		if err != nil {
			return nil, err // before anything is deleted
		}
		if !seen[e.ID] {
			entries = append(entries, e)
		}
		seen[e.ID] = true
	}
	return entries, nil
}

// delete removes sessions from the list and from the runtime. Where there is
// no runtime it only takes them off the list, and why is the reason.
func (p *program) delete(ctx context.Context, cfg *config.Config, entries []sessionstore.Entry) (done deletion, why, err error) {
	done.Deleted = []string{}
	if len(entries) == 0 {
		return done, nil, nil
	}
	_, why = copilotruntime.Find(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath})
	var b *app.Bridge
	if why == nil {
		opts := p.options(cfg)
		opts.NoTurns = true
		b, why = p.start(ctx, opts)
	}
	if ctx.Err() != nil {
		return done, nil, context.Cause(ctx)
	}
	remove, removed := app.Store(cfg).Delete, &done.Listed
	if why == nil {
		defer p.close(ctx, b)
		remove, removed = b.Engine.Delete, &done.Deleted
	}
	defer p.progress().Begin("deleting")()
	for _, e := range entries {
		if err := remove(ctx, e.ID); err != nil {
			return done, why, err
		}
		*removed = append(*removed, e.ID)
	}
	return done, why, nil
}

type pruneOptions struct {
	olderThan string
	keep      int
	dryRun    bool
}

func (p *program) sessionsPruneCommand() *cobra.Command {
	o := &pruneOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "prune",
		Short: "Delete old sessions and their conversations",
		Long: `Delete sessions that were not used for a time, or are beyond a number, with their
conversations. Pinned sessions and sessions in use are kept.

Without flags the settings sessions.keep_days and sessions.keep apply. Other commands
prune by these settings in the background.`,
		Example: `  copilot-bridge sessions prune --dry-run
  copilot-bridge sessions prune --older-than 30d
  copilot-bridge sessions prune --keep 100 --json`,
	}, func(ctx context.Context, c call) error { return p.pruneSessions(ctx, c, o) })
	f := flagsOf(cmd)
	f.text(&o.olderThan, "older-than", "those not used for this `TIME`, such as 30d or 12h")
	f.IntVar(&o.keep, "keep", 0, "those beyond the `N` used last")
	f.complete("keep", cobra.NoFileCompletions)
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "show what would be deleted, and delete nothing")
	f.json("write JSON")
	return cmd
}

// retention is what the flags ask for, or else the settings.
func (o *pruneOptions) retention(c call) (r sessionstore.Retention, err error) {
	aged, counted := c.cmd.Flags().Changed("older-than"), c.cmd.Flags().Changed("keep")
	if !aged && !counted {
		return upkeep.RetentionOf(c.cfg), nil
	}
	if counted && o.keep < 1 {
		return r, usage(c.cmd, "--keep=%d: must be at least 1; `copilot-bridge sessions delete --all` deletes every session", o.keep)
	}
	r.Keep = o.keep
	if aged {
		if r.Age, err = parseAge(o.olderThan); err != nil || r.Age == 0 {
			return r, usage(c.cmd, "--older-than=%q: must be a time such as 30d or 12h", o.olderThan)
		}
	}
	return r, nil
}

// parseAge reads a duration of up to a hundred years, which may be in days.
func parseAge(text string) (age time.Duration, err error) {
	if days, inDays := strings.CutSuffix(text, "d"); inDays {
		var n int
		n, err = strconv.Atoi(days)
		age = time.Duration(min(max(n, -1), 40_000)) * 24 * time.Hour
	} else {
		age, err = time.ParseDuration(text)
	}
	if err == nil && (age < 0 || age > 36_500*24*time.Hour) {
		err = strconv.ErrRange
	}
	return age, err
}

// pruned is what prune writes as JSON.
type pruned struct {
	DryRun  bool     `json:"dry_run"`
	Deleted []string `json:"deleted"`
	InUse   []string `json:"in_use"`
}

func (p *program) pruneSessions(ctx context.Context, c call, o *pruneOptions) error {
	r, err := o.retention(c)
	if err != nil {
		return err
	}
	entries, err := app.Store(c.cfg).List(ctx)
	if err != nil {
		return err
	}
	gone := r.Expired(entries, time.Now())
	text, done := "", " deleted\n"
	var busy []sessionstore.Entry
	if o.dryRun {
		if done = " would be deleted\n"; len(gone) > 0 {
			text = p.sessionTable(gone, 0)
		}
	} else {
		gone, busy, err = upkeep.DeleteSessions(ctx, p.options(c.cfg).Upkeep(), gone)
	}
	text += plural(len(gone), "session") + done
	if len(busy) > 0 {
		text += fmt.Sprintf("%s in use: %s\n", plural(len(busy), "session"), strings.Join(idsOf(busy), ", "))
	}
	return p.showFailed(pruned{DryRun: o.dryRun, Deleted: idsOf(gone), InUse: idsOf(busy)}, text, err)
}

func idsOf(entries []sessionstore.Entry) []string {
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func (p *program) sessionsPinCommand(name, short string, pinned bool) *cobra.Command {
	return p.command(&cobra.Command{
		Use:               name + " ID…",
		Short:             short,
		Example:           "  copilot-bridge sessions " + name + " 41bd9d7b",
		Args:              takes(cobra.MinimumNArgs(1), "the ids of sessions"),
		ValidArgsFunction: p.completeSessions,
	}, func(ctx context.Context, c call) error {
		store := app.Store(c.cfg)
		entries, err := chosen(ctx, store, c.args)
		for _, e := range entries {
			if err == nil {
				err = store.Update(ctx, e.ID, func(e *sessionstore.Entry) error {
					e.Pinned, e.Updated = pinned, e.Updated.Add(time.Nanosecond) // too little to be stored: it was not used
					return nil
				})
			}
		}
		if err != nil {
			return err
		}
		return p.print(fmt.Sprintf("%s %sned\n", plural(len(entries), "session"), name))
	})
}
