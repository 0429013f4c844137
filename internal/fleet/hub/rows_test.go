package hub_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// Rows comes to an end while others write, and is an error when it is cut off.
func TestRows(t *testing.T) {
	f := fleettest.Up(t)
	table, err := f.Coordinator.JS.KeyValue(t.Context(), f.Names(t).Of(fleet.TableClaims))
	if err != nil {
		t.Fatal(err)
	}
	const n = 300
	write := func() error {
		for i := range n {
			if _, err := table.Put(t.Context(), fmt.Sprint("run.", i), []byte("{}")); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- write() }()
	for range 5 {
		if rows, err := fleet.Rows(t.Context(), table, "run.*"); err != nil || len(rows) > n {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
	if err := fleettest.Receive(t, "the end of the writer", written); err != nil {
		t.Error(err)
	}
	if rows, err := fleet.Rows(t.Context(), table, "run.*"); err != nil || len(rows) != n {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if rows, err := fleet.Rows(ended, table, jetstream.AllKeys); err == nil {
		t.Errorf("%d rows without an error", len(rows))
	}
}
