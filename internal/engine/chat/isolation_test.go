//go:build unix

package chat

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// isolationCallers is how many callers the isolation test mixes.
const isolationCallers = 240

var nonces = regexp.MustCompile(`nonce-[0-9]+-end`)

// caller is one client with a word that no other client has.
type caller struct {
	b     *bench
	nonce string
	fails []string
}

func (c *caller) ask(ch bridge.Chat) outcome {
	ch.System = "Be brief."
	return c.check(ask(c.b.ctx, c.b.Service, ch))
}

// check looks for words of others.
func (c *caller) check(o outcome) outcome {
	for _, ev := range o.events {
		c.clean(fmt.Sprintf("%+v", ev))
	}
	if o.err != nil {
		c.clean(o.err.Error())
	}
	return o
}

func (c *caller) clean(text string) {
	for _, n := range nonces.FindAllString(text, -1) {
		if n != c.nonce {
			c.fails = append(c.fails, fmt.Sprintf("%s got %s", c.nonce, n))
		}
	}
}

func (c *caller) expect(o outcome, r bridge.EndReason) bool {
	if o.err != nil || o.end().Reason != r {
		c.fails = append(c.fails, fmt.Sprintf("%s ended with %q, %v", c.nonce, o.end().Reason, o.err))
		return false
	}
	return true
}

// talk is a conversation of several turns; all callers' have the same shape
// and the same number of messages.
func (c *caller) talk(turns int) {
	ch := chatOf()
	for range turns {
		ch.Messages = append(ch.Messages, say(c.nonce))
		o := c.ask(ch)
		if !c.expect(o, bridge.EndDone) {
			return
		}
		if o.text() != c.nonce {
			c.fails = append(c.fails, fmt.Sprintf("%s was told %q", c.nonce, o.text()))
		}
		ch.Messages = append(ch.Messages, o.reply())
	}
}

// tools calls two tools; forget leaves them without an answer.
func (c *caller) tools(forget bool) {
	ch := withTools(chatOf(script(`tool look {"x":"`+c.nonce+`"}`, `tool look {"x":"two"}`, "next", "text "+c.nonce)), "look")
	o := c.ask(ch)
	if !c.expect(o, bridge.EndTools) || forget {
		return
	}
	// So few are held that a parked one may have had to go: it is then told
	// anew, and the model calls its tools again.
	for range 5 {
		ch.Messages = append(ch.Messages, o.reply())
		for _, call := range o.calls() {
			ch.Messages = append(ch.Messages, result(call.ID, "result "+c.nonce))
		}
		if o = c.ask(ch); o.err != nil || o.end().Reason != bridge.EndTools {
			break
		}
	}
	c.expect(o, bridge.EndDone)
}

// leave goes away in the middle.
func (c *caller) leave() {
	ch := chatOf(script("text "+c.nonce, "silence"))
	ch.System = "Be brief."
	for ev, err := range read(c.b.ctx, c.b.Service, ch) {
		c.check(outcome{[]bridge.Event{ev}, err})
		if _, ok := ev.(bridge.TextDelta); ok || err != nil {
			return
		}
	}
}

// fail has the provider refuse the request.
func (c *caller) fail() {
	if o := c.ask(chatOf(script("status 400 no " + c.nonce))); o.err == nil {
		c.fails = append(c.fails, c.nonce+" was not refused")
	}
}

// retell brings a history that no session knows.
func (c *caller) retell() {
	c.expect(c.ask(chatOf(user("old "+c.nonce), assistant("hm"), say(c.nonce))), bridge.EndDone)
}

// No word of one caller ever reaches the model, or the answer, of another.
func TestIsolation(t *testing.T) {
	t.Parallel()
	// Few conversations are held, so that sessions pass from hand to hand.
	b := onRuntime(t, Options{Conversations: 6}, engine.Limits{MaxConcurrent: 12, QueueLimit: isolationCallers})
	var mu sync.Mutex
	var fails []string
	opened := map[int]int{}
	work := make(chan int)
	var wg sync.WaitGroup
	for w := range 24 {
		rng := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for i := range work {
				c := &caller{b: b, nonce: fmt.Sprintf("nonce-%d-end", i)}
				kind := rng.IntN(8)
				switch kind {
				case 0, 1, 2:
					c.talk(1 + kind)
				case 3:
					c.tools(false)
				case 4:
					c.tools(true)
				case 5:
					c.leave()
				case 6:
					c.fail()
				case 7:
					c.retell()
				}
				mu.Lock()
				fails = append(fails, c.fails...)
				opened[kind]++
				mu.Unlock()
			}
		})
	}
	for i := range isolationCallers {
		work <- i
	}
	close(work)
	wg.Wait()
	for i, f := range fails {
		if i < 10 {
			t.Error(f)
		}
	}
	requests := b.model.Requests()
	if len(requests) < isolationCallers {
		t.Errorf("the journal holds only %d requests", len(requests))
	}
	for _, r := range requests {
		seen := map[string]bool{}
		for _, n := range nonces.FindAllString(string(r.Raw), -1) {
			seen[n] = true
		}
		if len(seen) != 1 {
			t.Fatalf("a request to the model holds the words of %d callers: %s", len(seen), r.Raw)
		}
	}
	eventually(t, "all quiet", func() bool { return b.Stats().Running == 0 })
	if s := b.Stats(); s.Conversations > 6 || s.Pooled == 0 {
		t.Errorf("%+v", s)
	}
	t.Logf("%v, %d requests, %+v", opened, len(requests), b.Stats())
}
