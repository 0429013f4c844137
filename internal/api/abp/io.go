package abp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// line is a line of the host, or why it cannot be read.
type line struct {
	text []byte
	err  error
}

func (l line) parse() (contract.Envelope, error) {
	if l.err != nil {
		return nil, l.err
	}
	return contract.ParseHostLine(l.text)
}

// readLines hands over the lines until in or ctx ends. It skips blank ones.
func readLines(ctx context.Context, in io.Reader, to chan<- line) {
	defer close(to)
	lines := jsonrpc.NewLines(in, nil, contract.MaxLine)
	for {
		text, err := lines.Read()
		switch {
		case errors.Is(err, jsonrpc.ErrTooLong):
			err = errors.New("the line is longer than 16 MiB")
		case err != nil:
			return
		}
		if text = bytes.TrimSpace(text); len(text) == 0 && err == nil {
			continue
		}
		select {
		case to <- line{bytes.Clone(text), err}:
		case <-ctx.Done():
			return
		}
	}
}

const (
	// ahead is how many lines may wait for a reader before the run waits too.
	ahead = 256
	// drainWithin bounds the wait for a reader once the process has to end.
	drainWithin = 2 * time.Second
)

// output writes envelopes in another goroutine, so that a slow reader does not
// slow the run. Its methods may be called concurrently.
type output struct {
	ctx  context.Context
	w    io.Writer
	fail context.CancelCauseFunc // called when a write fails
	done chan struct{}           // closed when everything is written
	err  atomic.Pointer[error]   // of the write that failed

	mu    sync.Mutex // held while a line is handed over
	queue chan []byte
	ended bool
}

func newOutput(ctx context.Context, w io.Writer, fail context.CancelCauseFunc) *output {
	o := &output{ctx: ctx, w: w, fail: fail, done: make(chan struct{}), queue: make(chan []byte, ahead)}
	go o.run()
	return o
}

func (o *output) run() {
	defer close(o.done)
	for line := range o.queue {
		if o.failure() != nil {
			continue // so that no sender waits
		}
		if _, err := o.w.Write(line); err != nil {
			o.err.Store(&err)
			o.fail(err)
		}
	}
}

// send queues an envelope; after the last one it does nothing.
func (o *output) send(e contract.Envelope) error {
	_, err := o.write(e, false)
	return err
}

// end writes the last envelope, if none was the last, and waits for all writes.
func (o *output) end(e contract.Envelope) error {
	if _, err := o.write(e, true); err != nil {
		return err
	}
	return o.drain()
}

// write returns how long the line is.
func (o *output) write(e contract.Envelope, last bool) (int, error) {
	line := append(contract.AppendEnvelope(nil, e), '\n')
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.failure(); o.ended || err != nil {
		return 0, err
	}
	if last {
		o.ended = true
		defer close(o.queue)
	}
	late, stop := o.patience()
	defer stop()
	select {
	case o.queue <- line:
		return len(line), nil
	case <-late.Done():
		return 0, context.Cause(o.ctx)
	}
}

// close queues nothing more and waits until everything is written.
func (o *output) close() error {
	o.mu.Lock()
	if !o.ended {
		o.ended = true
		close(o.queue)
	}
	o.mu.Unlock()
	return o.drain()
}

// drain waits until everything is written.
func (o *output) drain() error {
	late, stop := o.patience()
	defer stop()
	select {
	case <-o.done:
		return o.failure()
	case <-late.Done():
		return context.Cause(o.ctx)
	}
}

// patience returns a context that ends when a reader has waited long enough:
// not before ctx has ended, and drainWithin from now or from then.
func (o *output) patience() (late context.Context, stop func()) {
	late, cancel := context.WithCancel(context.Background())
	unwatch := context.AfterFunc(o.ctx, func() {
		timer := time.AfterFunc(drainWithin, cancel)
		context.AfterFunc(late, func() { timer.Stop() })
	})
	return late, func() { unwatch(); cancel() }
}

// failure is the error of a write, if one has failed.
func (o *output) failure() error {
	if err := o.err.Load(); err != nil {
		return *err
	}
	return nil
}
