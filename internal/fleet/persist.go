package fleet

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const (
	// patience bounds how long a server that is away is waited for.
	patience = 10 * time.Minute
	// OneTry bounds one request to it.
	OneTry = 5 * time.Second
	// slowest is how many bytes a second a transfer has to make, longest what bounds it.
	slowest = 64 << 10
	longest = 15 * time.Minute
)

var (
	// ErrAgain is for a step that is to be tried once more at once.
	ErrAgain = errors.New("try again")
	// ErrLost says that the connection was lost while an answer was waited for.
	ErrLost = errors.New("the connection to the fleet was lost")
)

// Persist repeats step while the server is away. Bound is for each try. A step may
// have worked although it returns an error, so it must notice that when it is
// repeated.
func Persist(ctx context.Context, bound time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience+bound, &bridge.Error{Code: bridge.CodeUnavailable,
		Message: "the server of the fleet cannot be reached", Remedy: "see `copilot-bridge fleet status`"})
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

// TransferTime bounds a step that moves so many bytes.
func TransferTime(size int64) time.Duration {
	return OneTry + time.Duration(min(max(size, 0)/slowest, int64(longest/time.Second)))*time.Second
}

// passing says whether an error is of a server that is away or starts, or of a
// cluster that chooses new leaders.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code >= 500 && !strings.Contains(api.Description, "maximum") // what is full stays so
	}
	for _, e := range []error{ErrAgain, ErrLost, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		nats.ErrStaleConnection, nats.ErrReconnectBufExceeded, jetstream.ErrNoStreamResponse, jetstream.ErrNoHeartbeat, jetstream.ErrAsyncPublishTimeout,
		jetstream.ErrTooManyStalledMsgs, jetstream.ErrServerShutdown, jetstream.ErrConsumerLeadershipChanged} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
