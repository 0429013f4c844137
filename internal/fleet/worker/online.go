package worker

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// untilLost calls f with a context that ends when the connection is lost, since
// an answer that was on its way then does not come any more.
func untilLost(ctx context.Context, nc *nats.Conn, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	changed := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer nc.RemoveStatusListener(changed) // closes it, which ends the goroutine
	watch.Go(func() {
		if _, ok := <-changed; ok {
			cancel(fleet.ErrLost)
		}
	})
	defer cancel(nil)
	if !nc.IsConnected() {
		return fleet.ErrLost
	}
	err := f(ctx)
	if err != nil && errors.Is(context.Cause(ctx), fleet.ErrLost) {
		return errors.Join(fleet.ErrLost, err)
	}
	return err
}
