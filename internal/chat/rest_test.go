//go:build unix

package chat

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// converse makes conversations that are held, all at once.
func (b *bench) converse(t *testing.T, n int) []bridge.Chat {
	t.Helper()
	chats := make([]bridge.Chat, n)
	var wg sync.WaitGroup
	for i := range chats {
		wg.Go(func() {
			c := chatOf(user(fmt.Sprintf("I am nonce-%d-end\nrehearsal: text hello %d", i, i)))
			o := ask(b.ctx, b.Service, c)
			if o.err != nil {
				t.Error(o.err)
			}
			c.Messages = append(c.Messages, o.reply())
			chats[i] = c
		})
	}
	wg.Wait()
	return chats
}

// goOn has a conversation go on.
func (b *bench) goOn(t *testing.T, c *bridge.Chat, word string) {
	t.Helper()
	c.Messages = append(c.Messages, say(word))
	o := ask(b.ctx, b.Service, *c)
	if o.err != nil || o.text() != word {
		t.Errorf("answered %q, %v; want %q", o.text(), o.err, word)
	}
	c.Messages = append(c.Messages, o.reply())
}

// When the crowd has gone there is one runtime again, and every conversation
// goes on in it with all that was said.
func TestRest(t *testing.T) {
	b := onRuntime(t, Options{RestAfter: 300 * time.Millisecond, Openings: 32}, engine.Limits{})
	ask(b.ctx, b.Service, chatOf(say("hello"))).good(t, bridge.EndDone, "hello")
	eventually(t, "a second runtime", func() bool { b.crowd(t); return len(b.agent.ProgramPIDs(bridge.ProfileChat)) >= 2 })
	chats := b.converse(t, 16)
	eventually(t, "one runtime is left", func() bool { return len(b.agent.ProgramPIDs(bridge.ProfileChat)) == 1 })
	for i := range chats {
		b.goOn(t, &chats[i], "still here")
		got := b.last().Messages
		if len(got) != 3 || !strings.Contains(got[0].Content, fmt.Sprintf("I am nonce-%d-end\n", i)) || got[1].Content != fmt.Sprintf("hello %d", i) {
			t.Errorf("the model sees %+v", got)
		}
	}
}

// Whoever speaks while the runtime is being replaced gets an answer from a
// model that knows what was said, and no word of anybody else.
func TestTalkWhileMoving(t *testing.T) {
	b := onRuntime(t, Options{Openings: 32}, engine.Limits{})
	chats := b.converse(t, 6)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range chats {
		wg.Go(func() {
			for n := 0; ; n++ {
				b.goOn(t, &chats[i], fmt.Sprintf("nonce-%d-end %d", i, n))
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 6 {
		b.rotate(bridge.ProfileChat)
	}
	close(stop)
	wg.Wait()
	told := 0
	for _, r := range b.model.Requests() {
		found := nonces.FindAllString(string(r.Raw), -1)
		if slices.Sort(found); len(slices.Compact(found)) != 1 {
			t.Errorf("one model request has the words of %v:\n%s", found, r.Raw)
		}
		if strings.Contains(string(r.Raw), "[DIALOG]") {
			told++
		}
	}
	if told > 0 {
		t.Errorf("%d of %d times a conversation was told anew", told, len(b.model.Requests()))
	}
}
