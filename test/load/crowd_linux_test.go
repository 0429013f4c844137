package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// crowd is many callers at a time.
type crowd struct {
	t      *testing.T
	url    string
	size   int // at a time
	shape  func(c *caller)
	budget time.Duration

	mu      sync.Mutex
	callers int // so far
	active  int // of them
	sent    int // requests of those that have gone
	right   int
	fails   []string
}

// run lets callers come until they have made so many requests, a tenth of them
// if the time is up, and fails the test if one of them has something to complain about.
func (w *crowd) run(requests int) {
	w.t.Helper()
	began, before, right := time.Now(), w.sent, w.right
	client := newClient(w.url, w.size)
	defer client.close()
	limit := w.budget * time.Duration(scale)
	if raced {
		limit /= 4
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+patience)
	defer cancel()
	var wg sync.WaitGroup
	for range w.size {
		wg.Go(func() {
			for {
				wanted := requests
				if time.Since(began) > limit {
					wanted = requests / 10
				}
				n, more := w.next(before + wanted)
				if !more {
					return
				}
				rng := rand.New(rand.NewPCG(1, uint64(n)))
				c := &caller{client: client, rng: rng, proto: protocols()[rng.IntN(3)], nonce: fmt.Sprintf("nonce-%d-end", n)}
				w.shape(c)
				act(ctx, c)
				w.gone(c)
			}
		})
	}
	wg.Wait()
	took, sent := time.Since(began), w.sent-before
	w.t.Logf("%d requests in %s, %.0f a second, by %d callers so far; %d had to be answered and were",
		sent, took.Round(time.Millisecond), float64(sent)/took.Seconds(), w.callers, w.right-right)
	for i, f := range w.fails {
		if i < 10 {
			w.t.Error(f)
		}
	}
	if len(w.fails) > 0 {
		w.t.Fatalf("there are %d complaints", len(w.fails))
	}
}

// next numbers the next caller, if there is need of one: whoever is still
// there makes at least one request.
func (w *crowd) next(until int) (n int, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent+w.active >= until || len(w.fails) >= 10 {
		return 0, false
	}
	w.callers++
	w.active++
	return w.callers, true
}

func (w *crowd) gone(c *caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	w.sent += c.sent
	w.right += c.right
	w.fails = append(w.fails, c.fails...)
}

// act plays one caller's part.
func act(ctx context.Context, c *caller) {
	switch c.rng.IntN(10) {
	case 0, 1, 2:
		c.talk(ctx, 1)
	case 3:
		c.talk(ctx, 3)
	case 4:
		c.retell(ctx)
	case 5, 6:
		c.use(ctx)
	case 7, 8:
		c.leave(ctx)
	case 9:
		c.suffer(ctx)
	}
}
