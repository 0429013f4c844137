package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// slots bounds how many turns run and how many wait.
type slots struct {
	running chan struct{}
	waiting atomic.Int64
	queue   int64
}

func newSlots(running, queue int) *slots {
	return &slots{running: make(chan struct{}, running), queue: int64(queue)}
}

// acquire returns the function that gives the slot back.
func (s *slots) acquire(ctx context.Context) (release func(), err error) {
	release = func() { <-s.running }
	select {
	case s.running <- struct{}{}:
		return release, nil
	default:
	}
	if s.waiting.Add(1) > s.queue {
		s.waiting.Add(-1)
		return nil, &bridge.Error{Code: bridge.CodeBusy, RetryAfter: time.Second,
			Message: fmt.Sprintf("busy: %d turns are running and %d are waiting", cap(s.running), s.queue),
			Remedy:  "try again in a moment, or raise engine.max_concurrent or engine.queue_limit"}
	}
	defer s.waiting.Add(-1)
	select {
	case s.running <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
