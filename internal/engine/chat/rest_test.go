//go:build unix

package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
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
	c.Messages = append(c.Messages, user("go on\nrehearsal: text "+word))
	o := ask(b.ctx, b.Service, *c)
	if o.err != nil || !strings.HasSuffix(o.text(), word) { // what is told again holds older directives too
		t.Errorf("answered %q, %v; want %q", o.text(), o.err, word)
	}
	c.Messages = append(c.Messages, o.reply())
}

// recycled is an agent that notes how much its runtimes may have grown.
type recycled struct {
	*agenttest.Scripted
	grown chan float64
}

func (r recycled) Recycle(_ bridge.Profile, _ int64, grown float64) bool {
	if grown > 0 { // otherwise it was asked for the limit alone
		select {
		case r.grown <- grown:
		default:
		}
	}
	return false
}

// Grown runtimes are looked for when there has been little to do for a while,
// and may grow more while there still are turns.
func TestQuietTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := recycled{agenttest.NewScripted(), make(chan float64, 1)}
		e := engine.New(engine.Options{Agent: a})
		s := New(e, Options{})
		defer func() {
			if err := errors.Join(s.Close(context.Background()), e.Close(context.Background())); err != nil {
				t.Error(err)
			}
		}()
		for _, tc := range []struct {
			callers int
			want    float64
		}{{5, 0}, {1, grownCalm}, {0, grownIdle}} {
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range tc.callers {
				wg.Go(func() {
					for {
						ask(t.Context(), s, chatOf(script("delay 1s", "text hello")))
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			<-time.After(40 * time.Second)
			select {
			case <-a.grown: // of the time before
			default:
			}
			<-time.After(40 * time.Second)
			select {
			case got := <-a.grown:
				if got != tc.want {
					t.Errorf("with %d callers runtimes may grow %v times", tc.callers, got)
				}
			default:
				if tc.want != 0 {
					t.Errorf("with %d callers nobody looks", tc.callers)
				}
			}
			close(stop)
			wg.Wait()
		}
	})
}

// A caller that asks while the runtime is being replaced gets an answer from a
// model that knows the conversation, and no text of another caller.
func TestTalkWhileRecycling(t *testing.T) {
	t.Parallel()
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
		b.recycle(0, 0)
	}
	close(stop)
	wg.Wait()
	for _, r := range b.model.Requests() {
		found := nonces.FindAllString(string(r.Raw), -1)
		if slices.Sort(found); len(slices.Compact(found)) != 1 {
			t.Errorf("one model request has the words of %v:\n%s", found, r.Raw)
		}
	}
}
