// Package session is what the sessions of all agents have in common: one turn at
// a time, with its gate, its abort and its end, and the queue between the
// goroutine that receives events and the one that reads them. Each agent embeds
// Base in its own session. The package knows no agent and no policy; only the
// agents and their test suite use it.
package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Base is the common part of a session. Make one with New.
type Base struct {
	Spec bridge.SessionSpec

	id   string
	open *Open
	ctx  context.Context // ends with the session
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	turn   *Turn // nil between turns
	asked  int   // questions of the gate, to number them
}

// Turn is the running turn of a session.
type Turn struct {
	Ctx   context.Context // ends with the turn; gates and persons wait under it
	Usage bridge.Usage

	began time.Time
	abort context.CancelCauseFunc
	done  chan struct{} // closed when the turn is over
	yield func(bridge.Event, error) bool
	left  bool
	ended bool
	push  func(bridge.Event) // shows an event from any goroutine; nil if there is no way
}

var (
	// ErrReaderLeft says that the reader has left the loop: nothing more is
	// read.
	ErrReaderLeft = errors.New("the reader left")
	errAborted    = errors.New("aborted")
)

// New returns a session that is not closed. The id may come later, see SetID.
func New(id string, spec bridge.SessionSpec) *Base {
	b := &Base{Spec: spec, id: id}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// ID is the session's id.
func (b *Base) ID() string { return b.id }

// SetID names a session before it is used.
func (b *Base) SetID(id string) { b.id = id }

// Context ends with the session.
func (b *Base) Context() context.Context { return b.ctx }

// Stop ends Context: gates and persons stop waiting between turns.
func (b *Base) Stop() { b.stop() }

// Run makes an iterator of a turn, as bridge.Session.Send asks for it. The
// prompt passes the gate first. run gets the caller's context, and returns
// when the turn is over.
func (b *Base) Run(ctx context.Context, p bridge.Prompt, run func(context.Context, *Turn, bridge.Prompt) error) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		t, err := b.begin(ctx, yield)
		if err != nil {
			yield(nil, err)
			return
		}
		if err = b.gatePrompt(ctx, &p); err == nil {
			err = run(ctx, t, p)
		}
		if !t.left && !t.ended {
			switch {
			case errors.Is(context.Cause(t.Ctx), errAborted):
				err = t.End(bridge.EndAborted)
			case err != nil && ctx.Err() != nil:
				err = context.Cause(ctx)
			}
		}
		b.finish(t)
		if err != nil && !t.left {
			yield(nil, err)
		}
	}
}

func (b *Base) begin(ctx context.Context, yield func(bridge.Event, error) bool) (*Turn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the session is closed"}
	case b.turn != nil:
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "a turn is already running in this session", Remedy: "wait for it or abort it"}
	}
	t := &Turn{began: time.Now(), done: make(chan struct{}), yield: yield}
	t.Ctx, t.abort = context.WithCancelCause(ctx)
	b.turn = t
	return t, nil
}

func (b *Base) finish(t *Turn) {
	b.mu.Lock()
	b.turn = nil
	b.mu.Unlock()
	t.abort(nil)
	close(t.done)
}

func (b *Base) gatePrompt(ctx context.Context, p *bridge.Prompt) (err error) {
	if b.Spec.Gate != nil {
		p.Text, err = b.Spec.Gate.Prompt(ctx, p.Text)
	}
	return err
}

// Emit gives an event to the reader. It is for the goroutine of the turn.
func (t *Turn) Emit(ev bridge.Event) error {
	if t.left || !t.yield(ev, nil) {
		t.left = true
		return ErrReaderLeft
	}
	return nil
}

// End gives the turn's last event to the reader.
func (t *Turn) End(reason bridge.EndReason) error {
	t.ended = true
	return t.Emit(bridge.TurnEnded{Reason: reason, Usage: t.Usage, Duration: time.Since(t.began)})
}

// Cancel ends Ctx.
func (t *Turn) Cancel() { t.abort(nil) }

// ShowWith says how Waiting makes a question of the gate visible in a turn.
func (b *Base) ShowWith(t *Turn, push func(bridge.Event)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.push = push
}

// Running returns the running turn, or nil.
func (b *Base) Running() *Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.turn
}

// Abort ends the running turn by cancelling its Ctx.
func (b *Base) Abort(context.Context) error {
	if t := b.Running(); t != nil {
		t.abort(errAborted)
	}
	return nil
}

// MarkClosed refuses further turns.
func (b *Base) MarkClosed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Close aborts the running turn, waits for its end and closes the session.
func (b *Base) Close(ctx context.Context) error {
	b.MarkClosed()
	b.stop()
	if b.open != nil {
		b.open.remove(b)
	}
	t := b.Running()
	if t == nil {
		return nil
	}
	t.abort(errAborted)
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing a session: %w", ctx.Err())
	}
}

// NoCall is the error of Resolve for a call that does not wait.
func NoCall(requestID string) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "no tool call is waiting under " + requestID}
}

// Open are the open sessions of an agent that keeps them in memory only. The
// zero value is ready for use.
type Open struct {
	mu     sync.Mutex
	closed bool
	open   map[*Base]struct{}
}

// Add adds a session, which leaves with its Close.
func (o *Open) Add(b *Base) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrClosed()
	}
	if o.open == nil {
		o.open = map[*Base]struct{}{}
	}
	b.open, o.open[b] = o, struct{}{}
	return nil
}

func (o *Open) remove(b *Base) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, b)
}

// Closed says whether no session can be added.
func (o *Open) Closed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// ErrClosed is the error of an agent that was closed.
func ErrClosed() error {
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the agent is closed"}
}

// Close closes all sessions and refuses further ones.
func (o *Open) Close(ctx context.Context) error {
	o.mu.Lock()
	o.closed = true
	open := slices.Collect(maps.Keys(o.open))
	o.mu.Unlock()
	for _, b := range open {
		if err := b.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// NewID is a random UUID.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// LoginRefused reports whether a message of an agent's program says that nobody is
// logged in or that the login was refused. It is for errors without a code.
func LoginRefused(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{"not authenticated", "authenticate first", "no github oauth token", "bad credentials", "authorization error", `"status":401`},
		func(words string) bool { return strings.Contains(text, words) })
}

// secretHeader is the length from which the value of a header may be a secret: a
// shorter one is a word, which texts may well contain.
const secretHeader = 16

// Scrub replaces secrets that the bridge has given to an agent in one of its
// texts.
func Scrub(text string, p *bridge.Provider, token string) string {
	secrets := []string{token}
	if p != nil {
		secrets = append(secrets, p.APIKey, p.BearerToken)
		for _, value := range p.Headers {
			if len(value) >= secretHeader {
				secrets = append(secrets, value)
			}
		}
	}
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[REDACTED]")
		}
	}
	return text
}

// ScrubError is Scrub for the text of an error.
func ScrubError(err error, p *bridge.Provider, token string) error {
	if text := err.Error(); Scrub(text, p, token) != text {
		return errors.New(Scrub(text, p, token))
	}
	return err
}

const (
	joinAbove = 512     // items may wait before pieces of text are joined
	joinTo    = 8 << 10 // bytes of a joined piece: each piece is copied as it grows
)

// Queue brings what happens in a turn to the turn's reader. Push never waits:
// an agent's program is read in one loop for all of its sessions. So a slow
// reader costs memory by the byte, and a turn ends if its reader does not keep
// up.
type Queue[T any] struct {
	wake chan struct{} // holds a token if there is something new
	most int
	size func(T) int
	join func(last, next T, most int) (T, bool)

	mu    sync.Mutex
	items []T
	spare []T
	bytes int // of items
	ended bool
	err   error
}

// NewQueue returns a queue in which so many bytes may wait, as size counts
// them. join makes one item of two pieces of a text, where that is possible and
// the result is not longer than most.
func NewQueue[T any](most int, size func(T) int, join func(last, next T, most int) (T, bool)) *Queue[T] {
	return &Queue[T]{wake: make(chan struct{}, 1), most: most, size: size, join: join}
}

// Wake holds a token when there is something to take.
func (q *Queue[T]) Wake() <-chan struct{} { return q.wake }

// Push appends an item and reports whether there was room for it.
func (q *Queue[T]) Push(item T) (room bool) {
	q.mu.Lock()
	defer q.signal()
	defer q.mu.Unlock()
	size, n := q.size(item), len(q.items)
	if size > 0 && q.bytes+size > q.most && n > 0 {
		return false
	}
	q.bytes += size
	if n >= joinAbove {
		if joined, ok := q.join(q.items[n-1], item, joinTo); ok {
			q.items[n-1] = joined
			return true
		}
	}
	q.items = append(q.items, item)
	return true
}

// End closes the queue. The first error that End or Fail is given counts.
func (q *Queue[T]) End(err error) {
	q.mu.Lock()
	if !q.ended && q.err == nil {
		q.err = err
	}
	q.ended = true
	q.mu.Unlock()
	q.signal()
}

// Fail keeps the reason why the turn will end, and reports whether it is the
// first. End follows.
func (q *Queue[T]) Fail(err error) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first = q.err == nil; first {
		q.err = err
	}
	return first
}

// Ended reports whether the queue is closed.
func (q *Queue[T]) Ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

func (q *Queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Take returns the items so far, whether those are all, and the error. The
// slice is valid until the next call.
func (q *Queue[T]) Take() (items []T, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items = q.items
	q.items, q.spare, q.bytes = q.spare[:0], items, 0
	return items, q.ended, q.err
}
