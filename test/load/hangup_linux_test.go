package load

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// When a client hangs up, its turn is aborted at once and leaves nothing
// behind.
func TestHangUp(t *testing.T) {
	m := newModel(t)
	r := newRelay(t, m.URL())
	s := serve(t, r.url(), m.Key())
	number := 0
	for _, p := range protocols() {
		for _, stream := range []bool{true, false} {
			name := p.name()
			if !stream {
				name += ", not streaming"
			}
			t.Run(name, func(t *testing.T) {
				var all []time.Duration
				var before counts
				for try := range hangUps + 1 {
					number++
					took := hangUp(t, s, m, r, p, stream, fmt.Sprintf("nonce-%d-end", number))
					eventually(t, "the turn is over", func() bool { return s.counts().running == 0 })
					now := s.counts()
					if try == 0 {
						before = now // includes the session that the first request needed
						continue
					}
					all = append(all, took)
					if now.conversations != before.conversations || now.parked != before.parked {
						t.Errorf("there were %s, and now there are %s", before, now)
					}
					eventually(t, "no session is left over", func() bool { return s.counts().sessions() <= before.sessions() })
				}
				slices.Sort(all)
				t.Logf("from the hang-up to the end of the model's request: %v", all)
				if mid := all[len(all)/2]; mid > abortWithin {
					t.Errorf("the turn was aborted after %s, at the median", mid)
				}
			})
		}
	}
}

// hangUp has a client leave in the middle of an answer. It returns how long the
// model request lasted after that.
func hangUp(t *testing.T, s *server, m *model, r *relay, p protocol, stream bool, nonce string) time.Duration {
	t.Helper()
	c := newClient(s.url, 1)
	defer c.close()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	var left time.Time
	gone := func() { left = time.Now(); leave() }
	q := &question{messages: []message{{role: "user", text: messageText(nonce, 1, "hang")}}, stream: stream}
	if stream {
		if reply := c.ask(ctx, p, q, func() bool { gone(); return false }); !reply.quit || reply.text != nonce {
			t.Fatalf("it answered %q (%d %s %v)", reply.text, reply.status, reply.fault, reply.broken)
		}
	} else {
		done := make(chan *reply, 1)
		go func() { done <- c.ask(ctx, p, q, nil) }()
		eventually(t, "the model is asked", func() bool { return m.hasRequest(nonce) })
		gone()
		if reply := <-done; !reply.quit {
			t.Fatalf("it answered %q (%d %s %v)", reply.text, reply.status, reply.fault, reply.broken)
		}
	}
	var at time.Time
	within(t, 50*abortWithin, "the model's request ends", func() (ok bool) { at, ok = r.closed(nonce); return ok })
	return at.Sub(left)
}
