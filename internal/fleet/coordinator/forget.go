package coordinator

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// keepRuns is how long the fleet remembers a run that nobody went on with.
const keepRuns = 30 * 24 * time.Hour

// forget removes what the fleet has of old runs. Whoever begins a run does that.
func (c *Coordinator) forget() {
	if err := c.forgetOlder(c.ctx, keepRuns); err != nil && c.ctx.Err() == nil {
		c.opts.Logger.Warn("fleet.old_runs_not_removed", "error", err)
	}
}

func (c *Coordinator) forgetOlder(ctx context.Context, limit time.Duration) error {
	runs, err := c.stores.owners.Keys(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		_, rev, age, err := readOwner(ctx, c.stores.owners, run)
		if err != nil || rev == 0 || run == c.run || age < limit {
			continue // damaged ones are left for people to look at
		}
		err = errors.Join(
			c.purge(ctx, fleet.StreamTasks, "fleet.task.*."+run+".>"),
			c.purge(ctx, fleet.StreamResults, "fleet.result.*."+run+".>"),
			c.purge(ctx, "KV_"+fleet.TableClaims, "$KV."+fleet.TableClaims+"."+run+".>"),
			c.purge(ctx, fleet.StreamJournal, fleet.JournalSubject(run)),
			c.removeObjects(ctx, run+"/"))
		if err == nil {
			// Last: without it nobody would find the rest. Not if it was taken just now.
			err = c.stores.owners.Purge(ctx, run, jetstream.LastRevision(rev))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Coordinator) removeObjects(ctx context.Context, prefix string) error {
	objects, err := c.stores.runs.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	for _, o := range objects {
		if err == nil && strings.HasPrefix(o.Name, prefix) {
			err = c.stores.runs.Delete(ctx, o.Name)
		}
	}
	return err
}
