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

// caller is one client with its own nonce, a unique word. It keeps the
// conversation history, as real clients of these APIs do.
type caller struct {
	client *client
	proto  protocol
	rng    *rand.Rand
	nonce  string
	asks   question // the next request, with the history
	turns  int
	sent   int // requests sent
	right  int // requests that had to be answered correctly, and were
	fails  []string
}

func (c *caller) failf(format string, args ...any) {
	c.fails = append(c.fails, c.nonce+" ("+c.proto.name()+"): "+fmt.Sprintf(format, args...))
}

// ask sends the conversation and checks that the answer holds no nonce of
// another caller.
func (c *caller) ask(ctx context.Context, onText func() bool) *reply {
	c.sent++
	c.asks.stream = onText != nil || c.rng.IntN(3) > 0
	r := c.client.ask(ctx, c.proto, &c.asks, onText)
	for _, text := range []string{string(r.raw), r.text} {
		for _, n := range nonces.FindAllString(text, -1) {
			if n != c.nonce {
				c.failf("its answer contains the nonce of %s: %s", n, text)
			}
		}
	}
	return r
}

func (c *caller) addUserMessage(kind string) {
	c.turns++
	c.asks.messages = append(c.asks.messages, message{role: "user", text: messageText(c.nonce, c.turns, kind)})
}

// addAnswer appends an answer to the conversation.
func (c *caller) addAnswer(r *reply) {
	if c.asks.previous != "" || c.proto.name() == "responses" && c.asks.messages[0].role == "user" && c.rng.IntN(2) == 0 {
		c.asks.previous, c.asks.messages = r.id, nil // the bridge stores the rest
		return
	}
	c.asks.messages = append(c.asks.messages, message{role: "assistant", text: r.text, calls: r.calls})
}

// checkAnswer checks an answer that must be complete and correct.
func (c *caller) checkAnswer(r *reply) bool {
	switch {
	case !r.good():
		c.failf("it got no answer: %d %q, broken by %v\n%s", r.status, r.fault, r.broken, tail(r.raw))
		return false
	case r.text != expected(c.nonce, c.turns):
		c.failf("it got %q instead of %q", r.text, expected(c.nonce, c.turns))
		return false
	}
	c.right++
	return true
}

func tail(raw []byte) string { return string(raw[max(0, len(raw)-2000):]) }

// converse holds a conversation of several turns.
func (c *caller) converse(ctx context.Context, turns int) {
	for range turns {
		c.addUserMessage([]string{"echo", "slow"}[c.rng.IntN(2)])
		r := c.ask(ctx, nil)
		if !c.checkAnswer(r) {
			return
		}
		c.addAnswer(r)
	}
}

// editHistory starts with a history that no session knows, as after a restart,
// and then edits it, as some clients allow.
func (c *caller) editHistory(ctx context.Context) {
	c.turns = 2
	c.asks.messages = []message{
		{role: "user", text: messageText(c.nonce, 1, "echo")}, {role: "assistant", text: "I am " + c.nonce},
		{role: "user", text: messageText(c.nonce, 2, "echo")},
	}
	r := c.ask(ctx, nil)
	if !c.checkAnswer(r) {
		return
	}
	c.asks.messages = append(c.asks.messages, message{role: "assistant", text: r.text})
	c.asks.messages[1].text = "I was " + c.nonce
	c.converse(ctx, 1)
}

// call has the model call two tools. It returns nil if the model did not.
func (c *caller) call(ctx context.Context) *reply {
	c.asks.tools = append(c.asks.tools, tool{"look", "looks"})
	c.addUserMessage("look")
	r := c.ask(ctx, nil)
	if !r.good() || len(r.calls) != 2 {
		c.failf("it got %d calls: %d %q, broken by %v\n%s", len(r.calls), r.status, r.fault, r.broken, tail(r.raw))
		return nil
	}
	c.right++
	c.addAnswer(r)
	return r
}

// addResults adds the results of calls to the next request.
func (c *caller) addResults(calls ...call) {
	for _, x := range calls {
		c.asks.messages = append(c.asks.messages, message{role: "tool", id: x.id, text: "result of " + c.nonce})
	}
}

// useTools has the model call two tools. The client sends the results in any
// order, sends only one, or never sends them.
func (c *caller) useTools(ctx context.Context) {
	r := c.call(ctx)
	if r == nil || c.rng.IntN(4) == 0 {
		return // the results never arrive
	}
	calls := slices.Clone(r.calls)
	if c.rng.IntN(2) == 0 {
		slices.Reverse(calls)
	}
	if c.rng.IntN(4) == 0 && c.proto.name() != "messages" { // messages needs all results
		calls = calls[:1]
	}
	c.addResults(calls...)
	if r = c.ask(ctx, nil); !c.checkAnswer(r) {
		return
	}
	c.addAnswer(r)
	if c.rng.IntN(2) == 0 {
		c.converse(ctx, 1)
	}
}

// hangUpEarly hangs up at the first text, or at a random time.
func (c *caller) hangUpEarly(ctx context.Context) {
	if c.rng.IntN(2) == 0 {
		c.addUserMessage("hang")
		if r := c.ask(ctx, func() bool { return false }); r.text != c.nonce || !r.quit {
			c.failf("it left with %q: %d %q, broken by %v", r.text, r.status, r.fault, r.broken)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.rng.IntN(120))*time.Millisecond)
	defer cancel()
	c.addUserMessage([]string{"slow", "hang", "look"}[c.rng.IntN(3)])
	if r := c.ask(ctx, nil); !r.quit && !r.good() {
		c.failf("before hanging up it got %d %q", r.status, r.fault)
	}
}

// aliveWithin is when a stream may send its first bytes. Later errors cannot
// change the HTTP status.
const aliveWithin = 9 * time.Second

// meetError gets an error from the provider. If nothing was sent yet, the
// response has the provider's status. The conversation continues afterwards.
func (c *caller) meetError(ctx context.Context) {
	kinds := map[string]int{"refuse": http.StatusBadRequest, "limit": http.StatusTooManyRequests, "fail": http.StatusServiceUnavailable, "cut": http.StatusServiceUnavailable}
	kind := []string{"refuse", "limit", "fail", "cut"}[c.rng.IntN(4)]
	c.addUserMessage(kind)
	want := kinds[kind]
	began := time.Now()
	r := c.ask(ctx, nil)
	if c.asks.stream && kind == "cut" && r.status != want { // unless the runtime saw the cut before the first text
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
	c.converse(ctx, 1)
}
