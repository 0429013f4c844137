package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

func owners(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, error) {
	names, err := fleet.FindNames(ctx, js)
	if err != nil {
		return nil, err
	}
	return js.KeyValue(ctx, names.Of(fleet.TableOwners))
}

// Record is a run as the fleet has it, for orchestrate.Materialise.
type Record struct {
	Meta    orchestrate.Meta
	Events  []byte // one a line
	commits []commit
}

// Take makes a run this coordinator's whose own has died, or has let it go, and
// returns its record. Import, orchestrate.Materialise and orchestrate.Resume come
// next; End lets the run go again if they do not.
func (c *Coordinator) Take(ctx context.Context, run string) (r Record, err error) {
	if fleet.Token(run) != run {
		return r, notThere(run)
	}
	err = persist(ctx, func(ctx context.Context) error {
		table, err := owners(ctx, c.js)
		if err != nil {
			return fmt.Errorf("take the run over: %w", err)
		}
		_, rev, _, err := readOwner(ctx, table, run)
		if err == nil && rev == 0 {
			err = notThere(run)
		}
		return err
	})
	if err != nil {
		return r, err
	}
	if err := c.own(ctx, run, nil, ""); err != nil {
		return r, err
	}
	var events bytes.Buffer
	err = c.recall(ctx, func(e entry) {
		if e.Meta != nil {
			r.Meta = *e.Meta
		}
		if e.Event != nil {
			events.Write(e.Event)
			events.WriteByte('\n')
		}
		if e.Commit != nil {
			r.commits = append(r.commits, *e.Commit)
		}
	})
	if err == nil && r.Meta.ID != run {
		err = notThere(run) // its coordinator died before it had written anything
	}
	if err != nil {
		return r, errors.Join(err, c.End(ctx, false))
	}
	r.Events = events.Bytes()
	return r, nil
}

func notThere(run string) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "the fleet has no record of a run " + run, Remedy: "`copilot-bridge fleet status` lists the runs"}
}

// Import brings the commits of a run that was taken into a repository.
func (c *Coordinator) Import(ctx context.Context, r Record, repo *git.Repository) error {
	file := filepath.Join(c.opts.Scratch, "import")
	defer func() { _ = os.Remove(file) }() // the directory goes with the run
	for _, k := range r.commits {
		if k.Bundle.Object == "" {
			continue // whoever has a clone has it
		}
		if k.Stored != "" {
			err := transfer(ctx, k.Bundle.Size, func(ctx context.Context) (err error) {
				k.Data, err = c.stores.runs.GetBytes(ctx, k.Stored)
				return err
			})
			if err != nil {
				return fmt.Errorf("fetch commit %s of the run: %w", k.Commit, err)
			}
		}
		err := bundle.Receive(ctx, repo, bytes.NewReader(k.Data), k.Bundle, bundle.Expect{Name: k.Bundle.Object, Commit: k.Commit, Parent: k.Parent})
		if err != nil {
			return &bridge.Error{Code: bridge.CodeOf(err), Message: "commit " + k.Commit + " of the run does not fit into the repository here", Cause: err,
				Remedy: "run `git fetch` here, so that it has what the run builds on; the run needs a clone of the same repository"}
		}
	}
	return c.checkBase(ctx, r, repo)
}

// checkBase checks that the commit on which the run builds is there.
func (c *Coordinator) checkBase(ctx context.Context, r Record, repo *git.Repository) error {
	kind, err := repo.Line(ctx, git.Call{Args: []string{"cat-file", "--batch-check=%(objecttype)"}, Input: r.Meta.Base + "\n"})
	if err == nil && strings.TrimSpace(kind) != "commit" {
		err = &bridge.Error{Code: bridge.CodeNotFound, Message: "the repository here does not hold commit " + r.Meta.Base + ", on which the run builds",
			Remedy: "run `git fetch` here; the run needs a clone of the same repository"}
	}
	return err
}
