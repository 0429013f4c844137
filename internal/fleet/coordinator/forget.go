package coordinator

import (
	"context"
	"encoding/base64"
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
	runs, err := fleet.Rows(ctx, c.stores.owners, jetstream.AllKeys)
	if err != nil {
		return err
	}
	for _, r := range runs {
		run := r.Key()
		_, rev, age, err := readOwner(ctx, c.stores.owners, run)
		if err != nil || rev == 0 || run == c.run || age < limit {
			continue // damaged ones are left for people to look at
		}
		err = errors.Join(
			c.purge(ctx, fleet.StreamTasks, "fleet.task.*."+run+".>"),
			c.purge(ctx, fleet.StreamResults, "fleet.result.*."+run+".>"),
			c.purgeClaims(ctx, run),
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

// removeObjects removes the objects whose names begin so. It asks the server for
// their subjects: the bucket's own list never ends when an object comes or goes
// meanwhile.
func (c *Coordinator) removeObjects(ctx context.Context, prefix string) error {
	bucket := c.stores.names.Of(fleet.BucketRuns)
	head := "$O." + bucket + ".M."
	return persist(ctx, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, "OBJ_"+bucket)
		if err != nil {
			return err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(head+">"))
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, head))
			if err != nil || !strings.HasPrefix(string(name), prefix) {
				continue
			}
			if err := c.stores.runs.Delete(ctx, string(name)); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
				return err
			}
			if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil { // what is left of it
				return err
			}
		}
		return nil
	})
}
