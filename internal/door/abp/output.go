package abp

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/door/abp/contract"
)

const (
	// ahead is how many lines may wait for a reader before the run waits too.
	ahead = 256
	// batch is how many bytes are written at once if that many wait.
	batch = 64 << 10
	// drainWithin bounds the wait for a reader once the process is to end.
	drainWithin = 2 * time.Second
)

// output writes envelopes, in a goroutine of its own: a run that says much at
// once is not slowed by its reader, and several lines go out together. Its
// methods may be called concurrently.
type output struct {
	ctx  context.Context
	w    io.Writer
	fail context.CancelCauseFunc // called when nobody reads any more
	done chan struct{}           // closed when nothing more is written

	mu    sync.Mutex // held while a line is handed over
	queue chan []byte
	ended bool

	errMu sync.Mutex
	err   error
}

func newOutput(ctx context.Context, w io.Writer, fail context.CancelCauseFunc) *output {
	o := &output{ctx: ctx, w: w, fail: fail, done: make(chan struct{}), queue: make(chan []byte, ahead)}
	go o.run()
	return o
}

func (o *output) run() {
	defer close(o.done)
	var lines []byte
	for line := range o.queue {
		lines = append(lines[:0], line...)
		for more := true; more && len(lines) < batch; {
			select {
			case next := <-o.queue: // nil once it is closed
				lines, more = append(lines, next...), next != nil
			default:
				more = false
			}
		}
		if o.failure() != nil {
			continue // so that nobody waits to hand over
		}
		if _, err := o.w.Write(lines); err != nil {
			o.errMu.Lock()
			o.err = err
			o.errMu.Unlock()
			o.fail(err)
		}
	}
}

// send passes an envelope on; after the last one it does nothing.
func (o *output) send(e contract.Envelope) error {
	_, err := o.write(e, false)
	return err
}

// end writes the last envelope and waits until everything is written. Only the
// first caller's is the last.
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
	select {
	case o.queue <- line:
		return len(line), nil
	default:
	}
	late := make(<-chan time.Time)
	stop := o.ctx.Done()
	for {
		select {
		case o.queue <- line:
			return len(line), nil
		case <-stop:
			t := time.NewTimer(drainWithin)
			defer t.Stop()
			stop, late = nil, t.C
		case <-late:
			return 0, context.Cause(o.ctx)
		}
	}
}

// close says that nothing more comes, and waits.
func (o *output) close() error {
	o.mu.Lock()
	if !o.ended {
		o.ended = true
		close(o.queue)
	}
	o.mu.Unlock()
	return o.drain()
}

// drain waits until everything is written: as long as it takes, unless the
// process is to end.
func (o *output) drain() error {
	select {
	case <-o.done:
		return o.failure()
	case <-o.ctx.Done():
	}
	t := time.NewTimer(drainWithin)
	defer t.Stop()
	select {
	case <-o.done:
		return o.failure()
	case <-t.C:
		return context.Cause(o.ctx)
	}
}

// failure is why nothing can be written any more, if so.
func (o *output) failure() error {
	o.errMu.Lock()
	defer o.errMu.Unlock()
	return o.err
}
