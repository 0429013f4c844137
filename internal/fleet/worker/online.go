package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var errLost = errors.New("the connection to the fleet was lost")

// online does something that needs the connection. It ends f and does it again
// when the connection was lost, or when nothing came of it within the bound,
// until ctx ends.
func online(ctx context.Context, nc *nats.Conn, bound time.Duration, f func(ctx context.Context) error) error {
	for {
		err := untilLost(ctx, nc, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, bound)
			defer cancel()
			return f(ctx)
		})
		if ctx.Err() != nil || !again(err) {
			return err
		}
		timer := time.NewTimer(askPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// again says whether an error is one of the way to the server.
func again(err error) bool {
	for _, known := range []error{errLost, nats.ErrNoResponders, nats.ErrTimeout, nats.ErrReconnectBufExceeded, context.DeadlineExceeded, jetstream.ErrJetStreamNotEnabled, jetstream.ErrNoStreamResponse} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

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
			cancel(errLost)
		}
	})
	defer cancel(nil)
	if !nc.IsConnected() {
		return errLost
	}
	err := f(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errLost) {
		return errors.Join(errLost, err)
	}
	return err
}
