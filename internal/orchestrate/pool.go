package orchestrate

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Session is what a task is done in: a bridge.Session that its opener has put
// the guard in front of. One that can also Reset is used for several tasks.
type Session interface {
	ID() string
	Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error]
	Close(ctx context.Context) error
}

// Opening says what a session is for.
type Opening struct {
	Dir   string
	Title string
	Task  string // whose session it is, in a word, for whoever is asked for consent
	// Planning sessions only look.
	Planning bool
}

// Opener opens a session. It is called concurrently.
type Opener func(ctx context.Context, o Opening) (Session, error)

// SessionPool bounds how many sessions are in use, and keeps sessions for the
// next task in the same directory. Its methods may be called concurrently.
type SessionPool struct {
	open   Opener
	places chan struct{} // one a session in use

	mu       sync.Mutex
	idle     []idleSession // the one used last at the end
	draining bool
}

type idleSession struct {
	dir     string
	session Session
}

// DefaultConcurrency is how many sub-tasks run at a time unless told.
const DefaultConcurrency = 3

// NewSessionPool returns a pool of at most size sessions in use at a time.
func NewSessionPool(size int, open Opener) *SessionPool {
	if size <= 0 {
		size = DefaultConcurrency
	}
	return &SessionPool{open: open, places: make(chan struct{}, size)}
}

// Lease is a session in use. It must be released.
type Lease struct {
	Session
	pool *SessionPool
	dir  string
}

// Acquire waits for a place and returns a session in the directory: one that
// is idle there and has forgotten what was said in it, or a new one.
func (p *SessionPool) Acquire(ctx context.Context, o Opening) (*Lease, error) {
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s, err := p.session(ctx, o)
	if err != nil {
		<-p.places
		return nil, err
	}
	return &Lease{Session: s, pool: p, dir: o.Dir}, nil
}

func (p *SessionPool) session(ctx context.Context, o Opening) (Session, error) {
	for {
		s, draining := p.take(o.Dir)
		if draining {
			return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the pool of sessions is being closed"}
		}
		if s == nil {
			return p.open(ctx, o)
		}
		r, ok := s.(interface{ Reset(context.Context) error })
		if ok && r.Reset(ctx) == nil {
			return s, nil
		}
		// It cannot forget, so it must not be used by another task.
		if err := s.Close(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
}

func (p *SessionPool) take(dir string) (s Session, draining bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if p.idle[i].dir == dir {
			s = p.idle[i].session
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			break
		}
	}
	return s, p.draining
}

// Release gives the session back. A tainted one, in which something went
// wrong, is closed and never used again.
func (l *Lease) Release(ctx context.Context, tainted bool) error {
	p := l.pool
	defer func() { <-p.places }()
	_, resets := l.Session.(interface{ Reset(context.Context) error })
	p.mu.Lock()
	keep := resets && !tainted && !p.draining
	var surplus Session
	if keep {
		p.idle = append(p.idle, idleSession{l.dir, l.Session})
		if len(p.idle) > cap(p.places) {
			surplus = p.idle[0].session
			p.idle = p.idle[1:]
		}
	} else {
		surplus = l.Session
	}
	p.mu.Unlock()
	if surplus != nil {
		return surplus.Close(context.WithoutCancel(ctx))
	}
	return nil
}

// Retire closes the idle sessions in a directory, which is about to go away.
func (p *SessionPool) Retire(ctx context.Context, dir string) error {
	p.mu.Lock()
	var out []Session
	rest := p.idle[:0:0]
	for _, i := range p.idle {
		if i.dir == dir {
			out = append(out, i.session)
		} else {
			rest = append(rest, i)
		}
	}
	p.idle = rest
	p.mu.Unlock()
	var errs []error
	for _, s := range out {
		errs = append(errs, s.Close(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}

// Drain refuses new sessions, waits for those in use and closes all others.
func (p *SessionPool) Drain(ctx context.Context) error {
	p.mu.Lock()
	p.draining = true
	p.mu.Unlock()
	for range cap(p.places) {
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for range cap(p.places) {
		<-p.places
	}
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var errs []error
	for _, i := range idle {
		errs = append(errs, i.session.Close(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}
