package editor

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// maxUnread is how much of an answer may wait for its reader, in bytes. The
// goroutine that reads the stream cannot wait: others have answers there too.
const maxUnread = 64 << 20

// Chat sends a conversation and streams the answer. idle bounds the time to
// the first part and between parts; the extension holds VS Code to it, too.
// Leaving the loop, or the end of ctx, cancels the request in the editor.
func (c *Conn) Chat(ctx context.Context, r ChatRequest, idle time.Duration) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		in := newParts(c.unread)
		p := c.expect(in)
		defer c.forget(p)
		if err := c.send(ctx, methodChat, p.id, chatParams{bound(idle), r}); err != nil {
			yield(Part{}, err)
			return
		}
		over := false
		defer func() {
			if !over {
				c.cancel(p.id)
			}
		}()
		late := time.NewTimer(idle + grace)
		defer late.Stop()
		for {
			select {
			case <-in.ready:
				items, last, err := in.take()
				if err != nil {
					yield(Part{}, err)
					return
				}
				for _, part := range items {
					if !yield(part, nil) {
						over = last != nil
						return
					}
				}
				if last != nil {
					over = true
					if last.Error != nil {
						yield(Part{}, last.Error.asError())
					}
					return
				}
				late.Reset(idle + grace)
			case <-c.Done():
				over = true
				yield(Part{}, c.gone())
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

// parts is what has come of an answer and was not read yet.
type parts struct {
	ready chan struct{} // of one: there is something to take
	most  int           // bytes that may wait

	mu    sync.Mutex
	items []Part
	size  int
	last  *frame
	full  bool
}

func newParts(most int) *parts { return &parts{ready: make(chan struct{}, 1), most: most} }

func (p *parts) put(part Part, size int) {
	p.mu.Lock()
	if p.size += size; p.size > p.most {
		p.full = true
	} else {
		p.items = append(p.items, part)
	}
	p.mu.Unlock()
	p.signal()
}

func (p *parts) end(f *frame) {
	p.mu.Lock()
	p.last = f
	p.mu.Unlock()
	p.signal()
}

func (p *parts) signal() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *parts) take() (items []Part, last *frame, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full {
		return nil, nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("the answer is read too slowly: more than %d bytes wait", p.most)}
	}
	items, p.items, p.size = p.items, nil, 0
	return items, p.last, nil
}
