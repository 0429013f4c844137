package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// owner is this coordinator's row in TableOwners.
type owner struct {
	table jetstream.KeyValue
	run   string

	mu  sync.Mutex // held while the row is written
	row fleet.Owner
	rev uint64
	// gone: the row is written without a beat, so that it can be taken at once.
	gone bool
}

// readOwner returns a run's row and its revision, 0 if there is none. The age is
// by the server's clock.
func readOwner(ctx context.Context, table jetstream.KeyValue, run string) (row fleet.Owner, rev uint64, age time.Duration, err error) {
	e, err := table.Get(ctx, run)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return row, 0, 0, nil
	}
	if err != nil {
		return row, 0, 0, err
	}
	if err := json.Unmarshal(e.Value(), &row); err != nil {
		return row, 0, 0, &bridge.Error{Code: bridge.CodeInvalid, Message: "the row of the run " + run + " is damaged", Cause: err, Remedy: "start the task anew"}
	}
	if row.Schema != fleet.Schema {
		return row, 0, 0, otherSchema("the run "+run, row.Schema)
	}
	status, err := table.Status(ctx)
	if err != nil {
		return row, 0, 0, err
	}
	if s, ok := status.(*jetstream.KeyValueBucketStatus); ok {
		age = s.StreamInfo().TimeStamp.Sub(e.Created())
	}
	return row, e.Revision(), age, nil
}

// take makes the row ours, unless its owner lives.
func (o *owner) take(ctx context.Context, limit time.Duration) (before fleet.Owner, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err = persist(ctx, func(ctx context.Context) error {
		row, rev, age, err := readOwner(ctx, o.table, o.run)
		if err != nil {
			return err
		}
		if row.Epoch == o.row.Epoch { // an earlier try has come through
			o.rev = rev
			return nil
		}
		if rev != 0 && alive(row, age, limit) && !diedHere(row, o.row.Member) {
			return &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("the run %s is going on on %s (process %d, in %s)", o.run, row.Host, row.PID, row.Dir),
				Remedy: fmt.Sprintf("wait for it, or end it there; it can be taken over %s after its last sign of life", limit)}
		}
		before = row
		if o.row.Task == "" {
			o.row.Task, o.row.Dir = row.Task, row.Dir
		}
		if err = o.write(ctx, rev); overtaken(err) {
			return fleet.ErrAgain
		}
		return err
	})
	return before, err
}

// alive says whether the owner of a run has to be taken for alive.
func alive(row fleet.Owner, age, limit time.Duration) bool {
	return !row.Ended && !row.Beat.IsZero() && age < limit
}

// diedHere says that the owner was a process of this machine that has ended.
func diedHere(row fleet.Owner, member string) bool {
	return row.Member == member && row.PID > 0 && supervise.ProcessOf(row.PID).Start == 0
}

func (o *owner) write(ctx context.Context, rev uint64) error {
	if o.row.Beat = time.Now().UTC(); o.gone {
		o.row.Beat = time.Time{}
	}
	data, err := json.Marshal(o.row)
	if err != nil {
		return fmt.Errorf("encode the owner of a run: %w", err)
	}
	next, err := o.table.Update(ctx, o.run, data, rev)
	if err == nil {
		o.rev = next
	}
	return err
}

// renew writes the row again. It is the one sure way to learn whether the run is
// still ours: it cannot be answered with an old state.
func (o *owner) renew(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.write(ctx, o.rev)
	if !overtaken(err) {
		return err
	}
	row, rev, _, err := readOwner(ctx, o.table, o.run)
	if err != nil {
		return err
	}
	if row.Epoch != o.row.Epoch {
		return takenOver(o.run, row)
	}
	return o.write(ctx, rev) // a write of ours had come through whose answer had not
}

// describe says what the run is about. It is written with the next beat.
func (o *owner) describe(task, dir string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.row.Task, o.row.Dir = text.FirstLine(task, 100), dir
}

// release says that nobody works on the run. With ended, it is over.
func (o *owner) release(ctx context.Context, ended bool) error {
	return persist(ctx, func(ctx context.Context) error {
		o.mu.Lock()
		o.row.Ended, o.gone = ended, true
		o.mu.Unlock()
		return o.renew(ctx)
	})
}

func takenOver(run string, by fleet.Owner) error {
	host := by.Host
	if host == "" {
		host = "another coordinator"
	}
	return &bridge.Error{Code: bridge.CodeConflict, Message: fmt.Sprintf("the run %s was taken over by %s", run, host),
		Remedy: "see there; what was done here until then counts"}
}
