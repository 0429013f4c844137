package lineconn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// other is the other side of a connection that runs.
type other struct {
	conn *Conn
	in   *io.PipeWriter // what it says
	out  *bufio.Scanner // what it hears
	done chan error
	ctx  chan context.Context // of read
}

func run(t *testing.T, requests int) *other {
	t.Helper()
	r, in := io.Pipe()
	out, w := io.Pipe()
	o := &other{conn: New(r, w, requests), in: in, out: bufio.NewScanner(out), done: make(chan error, 1), ctx: make(chan context.Context, 1)}
	go func() {
		o.done <- o.conn.Run(t.Context(), func(ctx context.Context) error {
			o.ctx <- ctx
			_, err := io.Copy(io.Discard, r)
			return err
		})
	}()
	return o
}

func (o *other) hears(t *testing.T, want string) {
	t.Helper()
	if !o.out.Scan() || o.out.Text() != want {
		t.Fatalf("it hears %q, want %q", o.out.Text(), want)
	}
}

func TestServe(t *testing.T) {
	o := run(t, 2)
	ctx, reason := <-o.ctx, errors.New("never mind")
	stopped := func(ctx context.Context) func() []byte {
		return func() []byte {
			<-ctx.Done()
			return []byte("stopped: " + context.Cause(ctx).Error())
		}
	}
	if err := o.conn.Serve(ctx, "1", stopped); err != nil {
		t.Fatal(err)
	}
	if err := o.conn.Serve(ctx, "1", stopped); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
	if err := o.conn.Serve(ctx, "2", func(context.Context) func() []byte { return func() []byte { return []byte("two") } }); err != nil {
		t.Fatal(err)
	}
	o.hears(t, "two")
	// The place of the one that has answered is free soon.
	for errors.Is(o.conn.Serve(ctx, "2", stopped), ErrBusy) {
		runtime.Gosched()
	}
	if err := o.conn.Serve(ctx, "3", stopped); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v", err)
	}
	o.conn.Cancel("none", reason)
	o.conn.Cancel("1", reason)
	o.hears(t, "stopped: never mind")
	if err := o.conn.Send(t.Context(), []byte("a line")); err != nil {
		t.Fatal(err)
	}
	o.hears(t, "a line")
	// The end cancels the rest, whose answers are still let out.
	if err := o.in.Close(); err != nil {
		t.Fatal(err)
	}
	o.hears(t, "stopped: EOF")
	if err := <-o.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := o.conn.Send(t.Context(), []byte("late")); !errors.Is(err, ErrEnded) || !errors.Is(o.conn.Err(), io.EOF) {
		t.Errorf("got %v, %v", err, o.conn.Err())
	}
	if err := o.conn.Serve(ctx, "4", func(context.Context) func() []byte { t.Error("served after the end"); return nil }); err != nil {
		t.Error(err)
	}
}

// Nobody waits for a side that does not read.
func TestSilentSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := run(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		for n := 0; err == nil; n++ {
			if n > 1000 {
				t.Fatal("there is no bound")
			}
			err = o.conn.Send(ctx, []byte("unheard"))
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		reason := errors.New("enough")
		began := time.Now()
		o.conn.Fail(reason)
		o.conn.Fail(errors.New("later"))
		if err := <-o.done; !errors.Is(err, reason) {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > 3*FlushWithin {
			t.Errorf("it took %s", took)
		}
	})
}
