package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// listen begins to receive the signals that ask the process to end; before,
// they end it. One that was ignored when the process started, as nohup does,
// stays ignored.
func (p *program) listen() {
	if p.signals != nil {
		return
	}
	c := make(chan os.Signal, 4)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	p.signals, p.unlisten = c, func() { signal.Stop(c) }
}

// interruption is a context that a signal ends.
type interruption struct {
	// by is the signal that came, nil if none has. It may be read after stop.
	by    os.Signal
	drain atomic.Int64 // nanoseconds in which a server's running requests may finish
	// says, if set, is the line that answers the first signal.
	says atomic.Value
	// relay, if set, gets the signals instead: a program that has the terminal.
	relay atomic.Pointer[func(os.Signal)]
	stop  func() // must be called, and waits
}

// interruptible returns a context that the first signal ends; the second ends
// the process at once. The supervisors notice and end what we started. Only
// one such context is in use at a time.
func (p *program) interruptible(ctx context.Context) (context.Context, *interruption) {
	p.listen()
	ctx, cancel := context.WithCancelCause(ctx)
	in := &interruption{}
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case s := <-p.signals:
				if relay := in.relay.Load(); relay != nil {
					(*relay)(s)
					continue
				}
				if in.by != nil {
					p.exit(exitInterrupted) // without waiting for anything
					return
				}
				in.by = s
				cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "interrupted"})
				line := "interrupting… (Ctrl-C again to kill)"
				if drain := time.Duration(in.drain.Load()); drain > 0 {
					line = fmt.Sprintf("stopping; running requests may finish within %s… (Ctrl-C again to kill)", drain)
				}
				if own, ok := in.says.Load().(string); ok {
					line = own
				}
				if s == os.Interrupt {
					// Beside this loop: a reader that has stopped reading must
					// not keep the second signal from being heard.
					running.Go(func() { p.console.Warn(line) })
				}
			case <-quit:
				return
			}
		}
	})
	in.stop = func() {
		close(quit)
		running.Wait()
		cancel(nil)
	}
	return ctx, in
}
