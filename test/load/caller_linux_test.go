package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// caller is one client with a word of its own. It keeps the conversation, as
// the clients of these APIs do.
type caller struct {
	client *client
	proto  protocol
	rng    *rand.Rand
	nonce  string
	asks   question // what it asks next, with all that was said before
	turns  int
	sent   int // requests
	right  int // of them, those that had to be answered and were
	fails  []string
}

func (c *caller) failf(format string, args ...any) {
	c.fails = append(c.fails, c.nonce+" ("+c.proto.name()+"): "+fmt.Sprintf(format, args...))
}

// ask sends the conversation so far and looks for words of others in the
// answer.
func (c *caller) ask(ctx context.Context, onText func() bool) *reply {
	c.sent++
	c.asks.stream = onText != nil || c.rng.IntN(3) > 0
	r := c.client.ask(ctx, c.proto, &c.asks, onText)
	for _, text := range []string{string(r.raw), r.text} {
		for _, n := range nonces.FindAllString(text, -1) {
			if n != c.nonce {
				c.failf("it was told the words of %s: %s", n, text)
			}
		}
	}
	return r
}

func (c *caller) says(kind string) {
	c.turns++
	c.asks.messages = append(c.asks.messages, message{role: "user", text: words(c.nonce, c.turns, kind)})
}

// keep makes an answer part of the conversation.
func (c *caller) keep(r *reply) {
	if c.asks.previous != "" || c.proto.name() == "responses" && c.asks.messages[0].role == "user" && c.rng.IntN(2) == 0 {
		c.asks.previous, c.asks.messages = r.id, nil // the bridge knows the rest
		return
	}
	c.asks.messages = append(c.asks.messages, message{role: "assistant", text: r.text, calls: r.calls})
}

// answered checks an answer that must be good and right.
func (c *caller) answered(r *reply) bool {
	switch {
	case !r.good():
		c.failf("it got no answer: %d %q, broken by %v\n%s", r.status, r.fault, r.broken, tail(r.raw))
		return false
	case r.text != expected(c.nonce, c.turns):
		c.failf("it was told %q instead of %q", r.text, expected(c.nonce, c.turns))
		return false
	}
	c.right++
	return true
}

func tail(raw []byte) string { return string(raw[max(0, len(raw)-2000):]) }

// talk is a conversation of several turns.
func (c *caller) talk(ctx context.Context, turns int) {
	for range turns {
		c.says([]string{"echo", "slow"}[c.rng.IntN(2)])
		r := c.ask(ctx, nil)
		if !c.answered(r) {
			return
		}
		c.keep(r)
	}
}

// retell begins with a history that no session knows, as after a restart, and
// changes it afterwards, as clients do that let people edit.
func (c *caller) retell(ctx context.Context) {
	c.turns = 2
	c.asks.messages = []message{
		{role: "user", text: words(c.nonce, 1, "echo")}, {role: "assistant", text: "I am " + c.nonce},
		{role: "user", text: words(c.nonce, 2, "echo")},
	}
	r := c.ask(ctx, nil)
	if !c.answered(r) {
		return
	}
	c.asks.messages = append(c.asks.messages, message{role: "assistant", text: r.text})
	c.asks.messages[1].text = "I was " + c.nonce
	c.talk(ctx, 1)
}

// call has the model call two tools; nil if it did not.
func (c *caller) call(ctx context.Context) *reply {
	c.asks.tools = append(c.asks.tools, tool{"look", "looks"})
	c.says("look")
	r := c.ask(ctx, nil)
	if !r.good() || len(r.calls) != 2 {
		c.failf("it got %d calls: %d %q, broken by %v\n%s", len(r.calls), r.status, r.fault, r.broken, tail(r.raw))
		return nil
	}
	c.right++
	c.keep(r)
	return r
}

// results answers calls.
func (c *caller) results(calls ...call) {
	for _, x := range calls {
		c.asks.messages = append(c.asks.messages, message{role: "tool", id: x.id, text: "result of " + c.nonce})
	}
}

// use has the model call two tools; results come in any order, or only one,
// or never.
func (c *caller) use(ctx context.Context) {
	r := c.call(ctx)
	if r == nil || c.rng.IntN(4) == 0 {
		return // and never comes back
	}
	calls := slices.Clone(r.calls)
	if c.rng.IntN(2) == 0 {
		slices.Reverse(calls)
	}
	if c.rng.IntN(4) == 0 && c.proto.name() != "messages" { // which must have them all
		calls = calls[:1]
	}
	c.results(calls...)
	if r = c.ask(ctx, nil); !c.answered(r) {
		return
	}
	c.keep(r)
	if c.rng.IntN(2) == 0 {
		c.talk(ctx, 1)
	}
}

// leave hangs up: at the first word, or at a time that has nothing to do with
// what goes on.
func (c *caller) leave(ctx context.Context) {
	if c.rng.IntN(2) == 0 {
		c.says("hang")
		if r := c.ask(ctx, func() bool { return false }); r.text != c.nonce || !r.quit {
			c.failf("it left with %q: %d %q, broken by %v", r.text, r.status, r.fault, r.broken)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.rng.IntN(120))*time.Millisecond)
	defer cancel()
	c.says([]string{"slow", "hang", "look"}[c.rng.IntN(3)])
	if r := c.ask(ctx, nil); !r.quit && !r.good() {
		c.failf("before it left it was told %d %q", r.status, r.fault)
	}
}

// aliveWithin is when a stream may show its first sign of life, after which an
// error cannot have a status any more.
const aliveWithin = 9 * time.Second

// suffer gets an error, with the status of the model's provider if nothing was
// sent before it, and goes on afterwards.
func (c *caller) suffer(ctx context.Context) {
	kinds := map[string]int{"refuse": http.StatusBadRequest, "limit": http.StatusTooManyRequests, "fail": http.StatusInternalServerError, "cut": http.StatusBadGateway}
	kind := []string{"refuse", "limit", "fail", "cut"}[c.rng.IntN(4)]
	c.says(kind)
	want := kinds[kind]
	began := time.Now()
	r := c.ask(ctx, nil)
	if c.asks.stream && kind == "cut" {
		want = http.StatusOK
	}
	if r.status != want && time.Since(began) < aliveWithin || r.fault == "" || !r.ended || r.broken != nil {
		c.failf("%s ended with %d %q, broken by %v\n%s", kind, r.status, r.fault, r.broken, tail(r.raw))
	}
	if strings.Contains(r.fault, "internal") {
		c.failf("%s is called %s", kind, r.fault)
	}
	c.turns--
	c.asks.messages = c.asks.messages[:len(c.asks.messages)-1]
	c.talk(ctx, 1)
}
