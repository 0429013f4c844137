package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// plain is a session that does nothing; forgetful can be used again.
type plain struct {
	name   string
	closed *atomic.Int32
}

func (p *plain) ID() string { return p.name }
func (p *plain) Send(context.Context, bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(func(bridge.Event, error) bool) {}
}
func (p *plain) Close(context.Context) error { p.closed.Add(1); return nil }

type forgetful struct {
	*plain
	fails bool
}

func (f *forgetful) Reset(context.Context) error {
	if f.fails {
		return errors.New("it cannot forget")
	}
	return nil
}

func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened, closed atomic.Int32
		ctx := t.Context()
		p := NewSessionPool(2, func(_ context.Context, o Opening) (Session, error) {
			if o.Dir == "bad" {
				return nil, errPlanted
			}
			s := &plain{fmt.Sprint(o.Dir, opened.Add(1)), &closed}
			if o.Dir == "plain" {
				return s, nil
			}
			return &forgetful{s, o.Dir == "stubborn"}, nil
		})
		get := func(dir string) *Lease {
			t.Helper()
			l, err := p.Acquire(ctx, Opening{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		give := func(l *Lease, tainted bool) {
			t.Helper()
			if err := l.Release(ctx, tainted); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(what string, o, c int32) {
			t.Helper()
			if opened.Load() != o || closed.Load() != c {
				t.Fatalf("%s: %d opened, %d closed", what, opened.Load(), closed.Load())
			}
		}
		a := get("a")
		give(a, false)
		if b := get("a"); b.ID() != a.ID() {
			t.Error("a session was not used again")
		} else {
			give(b, true)
		}
		expect("tainted", 1, 1)
		give(get("stubborn"), false)
		give(get("stubborn"), false)
		expect("that cannot forget", 3, 2)
		give(get("plain"), false)
		expect("that knows no reset", 4, 3)
		if err := p.Retire(ctx, "stubborn"); err != nil {
			t.Error(err)
		}
		expect("retired", 4, 4)
		if _, err := p.Acquire(ctx, Opening{Dir: "bad"}); !errors.Is(err, errPlanted) {
			t.Error(err)
		}
		// Both places are taken: a third waits, and gives up with its context.
		x, y := get("x"), get("y")
		short, cancel := context.WithCancel(ctx)
		third := make(chan error)
		go func() {
			_, err := p.Acquire(short, Opening{Dir: "z"})
			third <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-third; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// Drain waits for what is in use.
		drained := make(chan error)
		go func() { drained <- p.Drain(ctx) }()
		synctest.Wait()
		select {
		case <-drained:
			t.Error("drained while sessions are in use")
		default:
		}
		give(x, false)
		give(y, false)
		if err := <-drained; err != nil {
			t.Error(err)
		}
		expect("drained", 6, 6)
		if _, err := p.Acquire(ctx, Opening{Dir: "x"}); bridge.CodeOf(err) != bridge.CodeUnavailable {
			t.Error(err)
		}
	})
}
