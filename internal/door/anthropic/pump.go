package anthropic

import (
	"context"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// item is what Answer yielded: an event or an error.
type item struct {
	event bridge.Event
	err   error
}

// ready is how many events may lie ready while the client is written to.
const ready = 64

// pump runs Answer in a goroutine of its own, so that the handler can show
// signs of life while the model is silent. The channel is closed after the
// last item. The handler calls stop before it returns: it aborts the turn if
// there still is one, and waits until the goroutine has gone.
func (d *door) pump(ctx context.Context, c bridge.Chat) (events <-chan item, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan item, ready)
	put := func(it item) bool {
		select {
		case out <- it:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(out)
		defer func() {
			if p := recover(); p != nil {
				// Panics of handlers are caught in front of them; this one
				// must not end the process either.
				put(item{err: &bridge.Error{Code: bridge.CodeInternal, Cause: fmt.Errorf("panic: %v", p)}})
			}
		}()
		for ev, err := range d.svc.Answer(ctx, c) {
			if err == nil && ev == nil {
				continue
			}
			if !put(item{ev, err}) {
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
