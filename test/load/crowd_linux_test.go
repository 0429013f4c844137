package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// crowd runs many callers concurrently.
type crowd struct {
	t      *testing.T
	url    string
	size   int // concurrent callers
	shape  func(c *caller)
	budget time.Duration

	mu      sync.Mutex
	callers int // started so far
	active  int // running now
	sent    int // requests of finished callers
	right   int
	fails   []string
}

// run starts callers until they have sent that many requests. When the time is
// up, a tenth of them is enough. It fails the test if a caller recorded
// failures.
func (w *crowd) run(requests int) {
	w.t.Helper()
	began, before, right := time.Now(), w.sent, w.right
	client := newClient(w.url, w.size)
	defer client.close()
	limit := w.budget
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
				runCaller(ctx, c)
				w.finished(c)
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
		w.t.Fatalf("there are %d failures", len(w.fails))
	}
}

// next returns the number of the next caller, if one is needed. Each active
// caller will send at least one more request.
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

func (w *crowd) finished(c *caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	w.sent += c.sent
	w.right += c.right
	w.fails = append(w.fails, c.fails...)
}

// runCaller plays one caller's part: a random kind of conversation.
func runCaller(ctx context.Context, c *caller) {
	switch c.rng.IntN(10) {
	case 0, 1, 2:
		c.converse(ctx, 1)
	case 3:
		c.converse(ctx, 3)
	case 4:
		c.editHistory(ctx)
	case 5, 6:
		c.useTools(ctx)
	case 7, 8:
		c.hangUpEarly(ctx)
	case 9:
		c.meetError(ctx)
	}
}
