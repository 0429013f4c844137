package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const (
	// patience bounds how long a run waits for a server that is away.
	patience = 10 * time.Minute
	// oneTry bounds one request to it.
	oneTry = 5 * time.Second
	// slowest is how many bytes a second a transfer has to make, longest what bounds it.
	slowest = 64 << 10
	longest = 15 * time.Minute
)

// errAgain is for a step that is to be tried once more at once.
var errAgain = errors.New("try again")

// persist repeats step while the server is away. A step may have worked
// although it returns an error, so it must notice that when it is repeated.
func persist(ctx context.Context, step func(context.Context) error) error {
	return persistWithin(ctx, oneTry, step)
}

// transfer is persist for a step that moves so many bytes.
func transfer(ctx context.Context, size int64, step func(context.Context) error) error {
	return persistWithin(ctx, transferTime(size), step)
}

func transferTime(size int64) time.Duration {
	return oneTry + time.Duration(min(max(size, 0)/slowest, int64(longest/time.Second)))*time.Second
}

func persistWithin(ctx context.Context, bound time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience+bound, &bridge.Error{Code: bridge.CodeUnavailable,
		Message: "the server of the fleet cannot be reached", Remedy: "see `copilot-bridge fleet status`, then go on with --resume"})
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		try, done := context.WithTimeout(ctx, bound)
		err := step(try)
		done()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx) // it says more
		case !passing(err):
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// passing says whether an error is of a server that is away or starts.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code >= 500
	}
	for _, e := range []error{errAgain, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
		nats.ErrDisconnected, nats.ErrReconnectBufExceeded, jetstream.ErrNoHeartbeat} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// overtaken says whether a write failed because somebody else wrote first.
func overtaken(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
