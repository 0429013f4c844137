package mcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// lane is what tasks share that run one after another.
type lane struct {
	dir   string
	depth int
}

// lanes lets the tasks of one lane through one at a time, first come, first
// served. Those of different lanes do not wait for each other.
type lanes struct {
	most int // who may wait in one lane

	mu    sync.Mutex
	queue map[lane][]*waiter // the first is at work
}

type waiter struct {
	moved chan int // of one: how many are ahead now, 0 when it is its turn
}

// enter waits for its turn, and tells how many are ahead whenever that
// changes. The caller calls leave when it is done.
func (l *lanes) enter(ctx context.Context, in lane, waiting func(ahead int)) (leave func(), err error) {
	w := &waiter{moved: make(chan int, 1)}
	l.mu.Lock()
	ahead := len(l.queue[in])
	if ahead > l.most {
		l.mu.Unlock()
		return nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("%d tasks wait for this directory already", l.most), Remedy: "try again later"}
	}
	if l.queue == nil {
		l.queue = map[lane][]*waiter{}
	}
	l.queue[in] = append(l.queue[in], w)
	l.mu.Unlock()
	leave = sync.OnceFunc(func() { l.leave(in, w) })
	for ahead > 0 {
		waiting(ahead)
		select {
		case ahead = <-w.moved:
		case <-ctx.Done():
			leave()
			return nil, context.Cause(ctx)
		}
	}
	return leave, nil
}

func (l *lanes) leave(in lane, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := l.queue[in][:0]
	for _, other := range l.queue[in] {
		if other != w {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		delete(l.queue, in)
		return
	}
	l.queue[in] = rest
	for ahead, other := range rest {
		select { // what it has not heard yet is out of date
		case <-other.moved:
		default:
		}
		other.moved <- ahead
	}
}
