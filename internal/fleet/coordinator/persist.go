package coordinator

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const oneTry = fleet.OneTry

// persist repeats a request while the server is away.
func persist(ctx context.Context, step func(context.Context) error) error {
	return fleet.Persist(ctx, oneTry, step)
}

// transfer is persist for a step that moves so many bytes.
func transfer(ctx context.Context, size int64, step func(context.Context) error) error {
	return fleet.Persist(ctx, fleet.TransferTime(size), step)
}

// overtaken reports whether a write failed because another writer was first.
func overtaken(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
