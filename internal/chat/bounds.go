package chat

import (
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// surplus takes out what is held beyond the bound, the oldest first, and
// parked turns only if there is nothing else: those are aborted, and disposed
// of by their own goroutines. mu is held.
func (s *Service) surplus() (victims []*conversation) {
	openings := 0
	for e := s.order.Front(); e != nil; {
		c := conversationAt(e)
		e = e.Next()
		if c.opening && c.state != parked {
			openings++
		}
		if openings > s.opts.Openings && c.opening && c.state == idle {
			victims = s.evict(victims, c, "")
		}
	}
	for _, st := range []state{idle, parked} {
		for e := s.order.Back(); e != nil && s.order.Len() > s.opts.Conversations; {
			c := conversationAt(e)
			e = e.Prev()
			if c.state == st {
				victims = s.evict(victims, c, "too many conversations are held")
			}
		}
	}
	return victims
}

func (s *Service) evict(victims []*conversation, c *conversation, why string) []*conversation {
	s.release(c)
	if c.state == parked {
		c.cancel(&bridge.Error{Code: bridge.CodeTimeout, Message: why})
		return victims
	}
	return append(victims, c)
}

// sweep ends what nobody has come back for. It is the service's first
// goroutine and runs until Close.
func (s *Service) sweep() {
	every := max(min(s.opts.ConversationTTL, s.opts.ParkTimeout, s.opts.AnswerTTL)/20, 10*time.Millisecond)
	t := time.NewTicker(min(every, s.opts.RestAfter))
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		s.expire()
		s.rest()
	}
}

func (s *Service) expire() {
	s.answers.expire()
	s.mu.Lock()
	var victims []*conversation
	for e := s.order.Back(); e != nil; {
		c := conversationAt(e)
		e = e.Prev()
		age := time.Since(c.used)
		switch {
		case c.state == idle && age >= s.opts.ConversationTTL:
			victims = s.evict(victims, c, "")
		case c.state == parked && age >= s.opts.ParkTimeout:
			victims = s.evict(victims, c, "the client did not answer its tool calls")
		}
	}
	old := s.pool.weed(func(p pooled) bool { return time.Since(p.since) >= s.opts.ConversationTTL })
	s.mu.Unlock()
	for _, v := range victims {
		s.dispose(v)
	}
	for _, session := range old {
		s.discard(session)
	}
	s.follow()
}
