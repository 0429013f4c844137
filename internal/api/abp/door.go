// Package abp is the Agent Backplane sidecar: a process that says hello, does
// one work order with Copilot, and ends with a receipt, all as lines of JSON on
// its standard streams. It turns bridge events into ABP's, keeps large outputs
// as artifacts, holds the order's limits and seals the receipt. It decides
// nothing: the guard of the session holds the order's policy. Package contract
// has the form of the lines, and package app calls Serve.
package abp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// BackendID is how the back end calls itself, DemoID where the demo model answers.
const (
	BackendID = "github_copilot_sdk"
	DemoID    = "copilot_bridge_demo"
)

// Service is what the sidecar stands on: an engine with the agent in use.
type Service interface {
	// Describe says who answers. It starts nothing.
	Describe() Description
	// Prepare pays start-up costs while the work order is on its way.
	Prepare(ctx context.Context)
	// Open makes a session for an order, under its policy.
	Open(ctx context.Context, o Order) (Session, error)
	// Clean hides secrets in a text.
	Clean(text string) string
}

// Description says who answers, and what it can do.
type Description struct {
	Version string // of the bridge
	Runtime string // of the agent's runtime
	// Capabilities are those of the agent in use; missing ones are unsupported.
	Capabilities map[bridge.Capability]bridge.Support
	// Notice says that the answers are not Copilot's, or is empty.
	Notice string
	// Warnings are sent to the host.
	Warnings []string
	// Broken is why no order can be done, if so.
	Broken error
}

// Order is what a session needs to know of a work order.
type Order struct {
	RunID  string // a UUID; a new session gets it as its id
	Title  string
	Root   string // absolute
	Policy contract.Policy
	// ReadOnly: the order asks for proposals, so nothing may be written.
	ReadOnly bool
	// Hidden are globs of what the workspace leaves out.
	Hidden []string

	Model, Effort  string
	System         bridge.SystemText
	AvailableTools []string // nil for all
	ExcludedTools  []string
	MCPServers     map[string]bridge.MCPServer
	Resume         string // a session to go on with
	Fork           bool   // go on with a copy of it
	Env            map[string]string
	MaxCredits     float64 // AI credits; 0 = no bound
	Raw            bool    // see bridge.SessionSpec.Raw
	// Text is the order itself, as JSON.
	Text []byte
	// Whole gets a tool's whole result, without secrets, from other goroutines
	// while the turn runs.
	Whole func(tool string, result any)
}

// Session is a conversation under an order's policy.
type Session interface {
	ID() string
	// Opened says who answers.
	Opened() bridge.SessionOpened
	Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error]
	// Unreadable says why the guard does not let a file be read, or is empty.
	Unreadable(path string) string
	Close(ctx context.Context) error
}

// Options tune a sidecar.
type Options struct {
	// MaxInline is how many bytes of a tool's output an event may carry.
	MaxInline int
	// Dir is what a relative workspace root is relative to.
	Dir string
	// Environ is for git, which verifies.
	Environ []string
	// Confine puts git in a sandbox; nil where there is none.
	Confine git.Confine
	Logger  *slog.Logger
	// Now replaces the clock in tests.
	Now func() time.Time
}

// Serve says hello, does the first work order that comes, and returns when its
// receipt is written, when in ends without one, or when ctx ends. It closes in
// if it can; a read that this does not end, of a terminal for instance, ends
// with the process. Only envelopes are written to out.
func Serve(ctx context.Context, s Service, in io.Reader, out io.Writer, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &door{service: s, opts: o, out: newOutput(ctx, out, cancel), about: s.Describe()}
	d.manifest = manifest(d.about.Capabilities)
	if err := d.out.send(d.hello()); err != nil {
		return err
	}
	var helpers sync.WaitGroup
	defer helpers.Wait()
	if d.about.Broken == nil {
		helpers.Go(func() {
			defer d.survive("preparing")
			s.Prepare(ctx)
		})
	}
	lines := make(chan line)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		readLines(ctx, in, lines)
	}()
	err := d.listen(ctx, lines)
	if werr := d.out.close(); werr != nil && !errors.Is(err, werr) {
		err = errors.Join(err, werr)
	}
	cancel(err)
	if c, ok := in.(io.Closer); ok {
		_ = c.Close() // there is nothing more to hear
	}
	patience := time.NewTimer(time.Second / 10)
	defer patience.Stop()
	select {
	case <-gone:
	case <-patience.C:
	}
	return err
}

type door struct {
	service  Service
	opts     Options
	out      *output
	about    Description
	manifest contract.Manifest
}

func (d *door) backend() contract.Backend {
	id := BackendID
	if d.about.Notice != "" {
		id = DemoID
	}
	return contract.Backend{ID: id, AdapterVersion: notEmpty(d.about.Version), BackendVersion: notEmpty(d.about.Runtime)}
}

func (d *door) hello() contract.Envelope {
	return &contract.Hello{ContractVersion: contract.Version, Backend: d.backend(), Capabilities: d.manifest, Mode: contract.Mapped}
}

// running is the run of this process.
type running struct {
	ref    string
	cancel context.CancelCauseFunc
	done   chan error
}

// listen handles what the host says until the run is over.
func (d *door) listen(ctx context.Context, lines <-chan line) (err error) {
	var r *running
	defer func() {
		if p := recover(); p != nil {
			err = d.panicked(p, nil)
		}
		if r != nil {
			r.cancel(err)
			<-r.done
		}
	}()
	for {
		var done chan error
		if r != nil {
			done = r.done
		}
		select {
		case l, open := <-lines:
			switch {
			case !open && r == nil:
				return nil // nobody wants anything
			case !open:
				lines = nil // the run goes on; whoever reads still reads
			default:
				if r, err = d.handle(ctx, l, r); err != nil {
					return err
				}
			}
		case err := <-done:
			r = nil
			return err
		case <-ctx.Done():
			if r != nil {
				done, r = r.done, nil
				return <-done // it ends by itself, with a receipt
			}
			return context.Cause(ctx)
		}
	}
}

// handle handles a line. Without a run r is nil and a bad line ends the protocol;
// during one it is skipped.
func (d *door) handle(ctx context.Context, l line, r *running) (*running, error) {
	e, err := l.parse()
	switch e := e.(type) {
	case *contract.Ping:
		return r, d.out.send(&contract.Pong{Seq: e.Seq})
	case *contract.Cancel:
		if r == nil || e.RefID != r.ref {
			d.opts.Logger.Warn("abp.cancel_ignored: there is no such run", "ref_id", e.RefID)
			return r, nil
		}
		reason := "by the host"
		if e.Reason != nil && *e.Reason != "" {
			reason += ": " + *e.Reason
		}
		r.cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "canceled " + reason})
		return r, nil
	case *contract.Run:
		if r == nil {
			ctx, cancel := context.WithCancelCause(ctx)
			r = &running{ref: e.ID, cancel: cancel, done: make(chan error, 1)}
			go func() {
				defer cancel(nil)
				r.done <- d.do(ctx, e)
			}()
			return r, nil
		}
	}
	switch {
	case r != nil:
		d.opts.Logger.Warn("abp.line_skipped: a process does one run, and only ping and cancel are read during it", "envelope", fmt.Sprintf("%T", e), "error", err)
		return r, nil
	case err != nil:
		return nil, d.fatal(nil, contract.CodeInvalidEnvelope, "not an envelope: "+err.Error(), "send one `run` envelope on one line")
	default:
		return nil, d.fatal(nil, contract.CodeUnexpectedMessage, "a `run` envelope was expected", "send `run` after the sidecar's `hello`")
	}
}

// fatal ends the protocol without a receipt.
func (d *door) fatal(ref *string, code contract.ErrorCode, message, remedy string) error {
	text := message
	if remedy != "" {
		text += " (" + remedy + ")"
	}
	err := d.out.end(&contract.Fatal{RefID: ref, Error: d.service.Clean(text), Code: &code})
	return errors.Join(&bridge.Error{Code: bridge.CodeInvalid, Message: message, Remedy: remedy}, err)
}

// panicked ends the protocol after a fault of ours.
func (d *door) panicked(p any, ref *string) error {
	d.opts.Logger.Error("a fault in the sidecar", "panic", p, "stack", string(debug.Stack()))
	code := contract.CodeInternal
	text := fmt.Sprintf("a fault in copilot-bridge: %v", p)
	err := d.out.end(&contract.Fatal{RefID: ref, Error: text, Code: &code})
	return errors.Join(&bridge.Error{Code: bridge.CodeInternal, Message: text}, err)
}

// survive keeps a fault beside the run from ending the process.
func (d *door) survive(what string) {
	if p := recover(); p != nil {
		d.opts.Logger.Error("a fault in the sidecar", "while", what, "panic", p, "stack", string(debug.Stack()))
	}
}
