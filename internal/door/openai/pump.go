package openai

import (
	"context"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// item is what Answer yielded.
type item struct {
	event bridge.Event
	err   error
}

// waiting is how many events may lie ready while the client is written to.
// Those that do are sent together.
const waiting = 64

// pump runs Answer in a goroutine of its own, so that the handler can show
// signs of life while the model is silent. The channel is closed after the
// last event. The handler must call stop before it returns: it aborts the turn
// if there still is one, and waits for the goroutine.
func (d *door) pump(ctx context.Context, c bridge.Chat) (items <-chan item, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan item, waiting)
	go func() {
		defer close(out)
		defer func() {
			if p := recover(); p != nil {
				// The front catches panics of handlers only; one request must
				// not end the process.
				select {
				case out <- item{err: &bridge.Error{Code: bridge.CodeInternal, Cause: fmt.Errorf("panic: %v", p)}}:
				case <-ctx.Done():
				}
			}
		}()
		for ev, err := range d.svc.Answer(ctx, c) {
			select {
			case out <- item{ev, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, func() {
		cancel()
		for range out { // until it is closed
		}
	}
}

// rest lets Answer come to its end after its last event: to leave earlier
// would abort a turn that waits for the client's tools.
func rest(ctx context.Context, items <-chan item) {
	for {
		select {
		case _, open := <-items:
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
