package editor

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// maxUnread is how much of an answer may wait for its reader, in bytes. The
// goroutine that reads the stream cannot wait: it brings all other answers.
const maxUnread = 64 << 20

// Chat sends a conversation and streams the answer. idle bounds the time to
// the first part and between parts; the extension holds VS Code to it, too.
// Leaving the loop, or the end of ctx, cancels the request in the editor.
func (c *Conn) Chat(ctx context.Context, r ChatRequest, idle time.Duration) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		raw, err := encode(methodChat, chatParams{bound(idle), r})
		if err != nil {
			yield(Part{}, err)
			return
		}
		call := c.NewCall()
		defer call.Forget()
		in := c.expect(call.ID)
		defer c.forget(call.ID)
		if err := call.Send(ctx, methodChat, raw); err != nil {
			yield(Part{}, c.explain(methodChat, err))
			return
		}
		answered := false
		defer func() {
			if !answered {
				call.Cancel()
			}
		}()
		pass := func() bool {
			items, err := in.take()
			if err != nil {
				yield(Part{}, err)
				return false
			}
			for _, part := range items {
				if !yield(part, nil) {
					return false
				}
			}
			return true
		}
		late := time.NewTimer(idle + grace)
		defer late.Stop()
		for {
			select {
			case <-in.ready:
				if !pass() {
					return
				}
				late.Reset(idle + grace)
			case m := <-call.Answer(): // its parts have come before it
				answered = true
				if pass() && m.Error != nil {
					yield(Part{}, asError(m.Error))
				}
				return
			case <-c.Done():
				answered = true
				err := call.Wait(ctx, nil) // the answer may have come just before the end
				if pass() && err != nil {
					yield(Part{}, c.explain(methodChat, err))
				}
				return
			case <-late.C:
				yield(Part{}, silent(methodChat, idle+grace))
				return
			case <-ctx.Done():
				yield(Part{}, context.Cause(ctx))
				return
			}
		}
	}
}

// parts are the parts of an answer that were not read yet.
type parts struct {
	ready chan struct{} // of one: there is something to take
	most  int           // bytes that may wait

	mu    sync.Mutex
	items []Part
	size  int
}

// expect registers a chat for its parts.
func (c *Conn) expect(id string) *parts {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chats[id] = &parts{ready: make(chan struct{}, 1), most: c.unread}
	return c.chats[id]
}

func (c *Conn) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.chats, id)
}

func (p *parts) put(part Part, size int) {
	p.mu.Lock()
	if p.size += size; p.size <= p.most {
		p.items = append(p.items, part)
	}
	p.mu.Unlock()
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *parts) take() ([]Part, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size > p.most {
		return nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("the answer is read too slowly: more than %d bytes wait", p.most)}
	}
	items := p.items
	p.items, p.size = nil, 0
	return items, nil
}
