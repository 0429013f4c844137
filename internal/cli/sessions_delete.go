package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

type deleteOptions struct {
	ids  []string
	all  bool
	yes  bool
	json bool
}

func (p *program) sessionsDeleteCommand() *cobra.Command {
	o := &deleteOptions{}
	cmd := &cobra.Command{
		Use:     "delete ID…",
		Aliases: []string{"rm"},
		Short:   "Delete sessions and what was said in them",
		Example: `  copilot-bridge sessions delete 41bd9d7b
  copilot-bridge sessions delete --all --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ids = args
			return p.runSessionsDelete(cmd, o)
		},
		ValidArgsFunction: p.completeSessions,
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "delete every session")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON")
	return cmd
}

// deletion is what delete writes as JSON.
type deletion struct {
	Deleted []string `json:"deleted"`
	// Listed are those that could only be taken off the list.
	Listed []string `json:"only_unlisted,omitempty"`
}

func (p *program) runSessionsDelete(cmd *cobra.Command, o *deleteOptions) error {
	switch {
	case o.all && len(o.ids) > 0:
		return usage(cmd, "give ids or --all, not both")
	case !o.all && len(o.ids) == 0:
		return usage(cmd, "give the ids of the sessions to delete, or --all")
	}
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	entries, err := chosen(ctx, app.Store(cfg), o)
	if err != nil {
		return err
	}
	if o.all && !o.yes && len(entries) > 0 {
		if err := p.confirmDeletion(ctx, cmd, len(entries), o.json); err != nil {
			return err
		}
	}
	done, why, err := p.delete(ctx, cfg, entries)
	if err != nil {
		return err
	}
	if o.json {
		if err := p.printJSON(done); err != nil {
			return err
		}
	} else if err := p.print(fmt.Sprintf("%s deleted\n", plural(len(done.Deleted), "session"))); err != nil {
		return err
	}
	if len(done.Listed) > 0 {
		return &exitError{code: exitPartly, told: true, err: &bridge.Error{Code: bridge.CodeOf(why), Cause: why,
			Message: plural(len(done.Listed), "session") + " could only be taken off the list; what was said in them is still on the disk",
			Remedy:  bridge.AsError(why).Remedy}}
	}
	return nil
}

func chosen(ctx context.Context, store *sessionstore.Store, o *deleteOptions) ([]sessionstore.Entry, error) {
	if o.all {
		return store.List(ctx)
	}
	var entries []sessionstore.Entry
	seen := map[string]bool{}
	for _, id := range o.ids {
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

func (p *program) confirmDeletion(ctx context.Context, cmd *cobra.Command, n int, asJSON bool) error {
	if asJSON || !p.hasKeyboard() {
		return usage(cmd, "--all needs --yes where nobody can be asked")
	}
	k := p.openKeyboard()
	defer k.close()
	yes, err := k.confirm(ctx, fmt.Sprintf("Delete %s and all that was said in them?", plural(n, "session")))
	if err != nil || yes {
		return err
	}
	return &bridge.Error{Code: bridge.CodeDenied, Message: "nothing was deleted"}
}

// delete removes sessions from the list and from the runtime. Where there is
// no runtime it takes them off the list, and why says what was missing.
func (p *program) delete(ctx context.Context, cfg *config.Config, entries []sessionstore.Entry) (done deletion, why, err error) {
	done.Deleted = []string{}
	if len(entries) == 0 {
		return done, nil, nil
	}
	_, why = copilotruntime.Find(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath})
	var b *app.Bridge
	if why == nil {
		b, why = p.start(ctx, cfg, false)
	}
	if ctx.Err() != nil {
		return done, nil, context.Cause(ctx)
	}
	if why != nil {
		for _, e := range entries {
			if err := app.Store(cfg).Delete(ctx, e.ID); err != nil {
				return done, why, err
			}
			done.Listed = append(done.Listed, e.ID)
		}
		return done, why, nil
	}
	defer func() {
		if cerr := b.Close(ctx); cerr != nil {
			p.log.Warn("the end was not clean", "error", cerr)
		}
	}()
	for _, e := range entries {
		if err := b.Engine.Delete(ctx, e.ID); err != nil {
			return done, nil, err
		}
		done.Deleted = append(done.Deleted, e.ID)
	}
	return done, nil, nil
}
