package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The size of the overload: a tenth by default. A long run sends all of it,
// with the program's own limits.
const (
	overloadCallers = 1000
	overloadLasts   = time.Minute
)

// refusals are the error codes of each API for a refused request.
var refusals = map[string]string{"completions": "rate_limit_exceeded", "responses": "rate_limit_exceeded", "messages": "rate_limit_error"}

// One program sends more requests than the queue holds. Each is answered
// completely, or refused in the format of its API with a Retry-After. Meanwhile
// a single caller of another program is always served.
func TestOverload(t *testing.T) {
	m := newModel(t)
	callers, lasts := overloadCallers, overloadLasts
	var vars []string
	if !long() {
		callers, lasts = callers/10, lasts/10
		vars = []string{"COPILOT_BRIDGE_MAX_CONCURRENT=64", "COPILOT_BRIDGE_QUEUE_LIMIT=6"}
	}
	s := serve(t, m.URL(), m.Key(), vars...)
	client, alone := newClient(s.url, callers), newClient(s.url, 1)
	alone.agent = "alone"
	defer client.close()
	defer alone.close()
	ctx, cancel := context.WithTimeout(context.Background(), lasts+patience)
	defer cancel()
	began := time.Now()
	var mu sync.Mutex
	var answered, refused, single []time.Duration
	var fails []string
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := i + 1; time.Since(began) < lasts; n += callers {
				c := newOverloader(client, n)
				first, r := c.askOnce(ctx)
				mu.Lock()
				switch r.status {
				case http.StatusTooManyRequests:
					refused = append(refused, first)
					if after, err := strconv.Atoi(r.retry); err != nil || after < 1 || r.fault != refusals[c.proto.name()] || r.broken != nil {
						c.failf("it was refused with %q, to come back after %q, broken by %v", r.fault, r.retry, r.broken)
					}
				default:
					answered = append(answered, first)
					c.checkReply(r)
				}
				fails = append(fails, c.fails...)
				mu.Unlock()
				if r.status == http.StatusTooManyRequests {
					select { // waits as long as Retry-After says, but not past the end
					case <-time.After(time.Second):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	for n := 1; time.Since(began) < lasts; n++ {
		c := newOverloader(alone, n*10*overloadCallers)
		first, r := c.askOnce(ctx)
		c.checkReply(r)
		mu.Lock()
		single, fails = append(single, first), append(fails, c.fails...)
		mu.Unlock()
	}
	wg.Wait()
	t.Logf("%d answered, first word %s; %d refused, after %s; single caller %d, first word %s", len(answered), spread(answered), len(refused), spread(refused), len(single), spread(single))
	if len(answered) == 0 || len(refused) == 0 {
		t.Error("no request was refused")
	} else if slow, quick := median(refused), median(answered); slow > quick {
		t.Errorf("a refusal takes %s, a first text %s", slow, quick)
	}
	for i, f := range fails {
		if i < 10 {
			t.Error(f)
		}
	}
	client.close()
	alone.close()
	s.waitIdle()
}

func newOverloader(client *client, n int) *caller {
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	return &caller{client: client, rng: rng, proto: protocols()[rng.IntN(3)], nonce: fmt.Sprintf("nonce-%d-end", n)}
}

// askOnce sends a question and returns the time to the first text or to the
// refusal.
func (c *caller) askOnce(ctx context.Context) (first time.Duration, r *reply) {
	c.addUserMessage("real")
	began := time.Now()
	r = c.ask(ctx, func() bool {
		if first == 0 {
			first = time.Since(began)
		}
		return true
	})
	if first == 0 {
		first = time.Since(began)
	}
	return first, r
}

// checkReply checks an answer that must be good.
func (c *caller) checkReply(r *reply) {
	if want := expected(c.nonce, c.turns); !r.good() || strings.Join(strings.Fields(r.text), " ") != want {
		c.failf("it got %q: %d %q, broken by %v\n%s", r.text, r.status, r.fault, r.broken, tail(r.raw))
	}
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "never"
	}
	return fmt.Sprintf("%s at the median, %s at most", median(d).Round(time.Millisecond), slices.Max(d).Round(time.Millisecond))
}
