package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// RowsTimeout bounds the reading of a table.
const RowsTimeout = 30 * time.Second

// Rows reads the rows of a table whose keys match, each once. One that is written
// meanwhile may be missing. It is an error if the reading is cut off: the client
// only closes its channel then.
func Rows(ctx context.Context, table jetstream.KeyValue, keys string) ([]jetstream.KeyValueEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, RowsTimeout)
	defer cancel() // the client's goroutine waits for it
	watch, err := table.Watch(ctx, keys, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read the table %s: %w", table.Bucket(), err)
	}
	defer func() { _ = watch.Stop() }() // fails only if the connection is closed
	var rows []jetstream.KeyValueEntry
	at := map[string]int{} // of keys
	for {
		select {
		case row, open := <-watch.Updates():
			switch {
			case open && row == nil: // that was all
				return rows, nil
			case open: // again, if it was written meanwhile
				if i, again := at[row.Key()]; again {
					rows[i] = row
					continue
				}
				at[row.Key()] = len(rows)
				rows = append(rows, row)
				continue
			}
			err = ErrLost
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("read the table %s: %w", table.Bucket(), err)
	}
}
