package chat

import (
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

const (
	pooledPerShape = 32
	pooledInAll    = 64
)

// pool keeps empty sessions by their shape. Service.mu guards it; it only
// says what is to be discarded and leaves that to its caller.
type pool struct {
	sessions map[digest][]pooled
	count    int
}

type pooled struct {
	session *engine.Session
	since   time.Time
}

func newPool() *pool { return &pool{sessions: map[digest][]pooled{}} }

func (p *pool) size() int { return p.count }

// take returns the session of a shape that came last, nil if there is none;
// in quiet times one of the first runtime if there is any. The others are
// there for a crowd: with few turns, going to and fro between them finds
// nobody's memory in the processor's caches, which costs a millisecond.
func (p *pool) take(key digest, quiet bool) *engine.Session {
	list := p.sessions[key]
	if len(list) == 0 {
		return nil
	}
	i := len(list) - 1
	if quiet {
		for i > 0 && list[i].session.Aside() {
			i--
		}
		if list[i].session.Aside() {
			i = len(list) - 1
		}
	}
	session := list[i].session
	p.remove(key, i)
	return session
}

// put keeps a session and returns the one that has to go for it, if any.
func (p *pool) put(key digest, s *engine.Session, now time.Time) (surplus *engine.Session) {
	p.sessions[key] = append(p.sessions[key], pooled{s, now})
	p.count++
	oldest := key
	if len(p.sessions[key]) <= pooledPerShape {
		if p.count <= pooledInAll {
			return nil
		}
		for k, list := range p.sessions {
			if list[0].since.Before(p.sessions[oldest][0].since) {
				oldest = k
			}
		}
	}
	surplus = p.sessions[oldest][0].session
	p.remove(oldest, 0)
	return surplus
}

func (p *pool) remove(key digest, i int) {
	p.count--
	if list := slices.Delete(p.sessions[key], i, i+1); len(list) > 0 {
		p.sessions[key] = list
		return
	}
	delete(p.sessions, key)
}

// weed takes out what bad says.
func (p *pool) weed(bad func(pooled) bool) []*engine.Session {
	var out []*engine.Session
	for key, list := range p.sessions {
		for i := len(list) - 1; i >= 0; i-- {
			if bad(list[i]) {
				out = append(out, list[i].session)
				p.remove(key, i)
				list = p.sessions[key]
			}
		}
	}
	return out
}

func (p *pool) drain() []*engine.Session { return p.weed(func(pooled) bool { return true }) }

func (p *pool) anyCurrent() bool {
	for _, list := range p.sessions {
		for _, x := range list {
			if x.session.Current() {
				return true
			}
		}
	}
	return false
}
