package toolbus

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// transport carries messages to a client.
type transport interface {
	// send waits until there is room for the message, which may come in
	// pieces. It fails when ctx ends or the client is gone.
	send(ctx context.Context, message ...[]byte) error
	// offer drops the message if there is no room at once.
	offer(message []byte)
	// notifies reports whether the client hears messages that it did not ask
	// for.
	notifies() bool
}

// conn is one client: its running calls and what it has subscribed to. It
// does not know how messages travel. handle is called by one goroutine, end
// and wait by another.
type conn struct {
	door  *door
	to    transport
	ctx   context.Context // of all calls
	stop  context.CancelCauseFunc
	slots chan struct{} // held by what runs

	mu     sync.Mutex
	ended  error              // why no further calls begin; nil while they do
	calls  map[*call]struct{} // running and waiting
	bytes  int                // of their messages
	leave  func()             // ends the subscription to approvals; nil without one
	active sync.WaitGroup     // Add under mu, while not ended
}

// call is one request under way.
type call struct {
	conn   *conn
	id     json.RawMessage // nil for a notification
	key    string          // see idKey
	size   int
	cancel context.CancelCauseFunc
	found  int64 // bytes of hits that it holds
}

// holds takes note of so many more bytes of hits, if there is room for them
// among those of all calls.
func (k *call) holds(n int) bool {
	if k == nil || k.conn == nil {
		return true
	}
	if k.conn.door.found.Add(int64(n)) > maxFoundAll {
		k.conn.door.found.Add(-int64(n))
		return false
	}
	k.found += int64(n)
	return true
}

type callKey struct{}

// callOf is the call that a context belongs to, or nil.
func callOf(ctx context.Context) *call {
	k, _ := ctx.Value(callKey{}).(*call)
	return k
}

// connect begins a connection whose calls end with ctx.
func (d *door) connect(ctx context.Context, to transport) *conn {
	ctx, stop := context.WithCancelCause(ctx)
	return &conn{door: d, to: to, ctx: ctx, stop: stop, slots: make(chan struct{}, d.opts.MaxConcurrent), calls: map[*call]struct{}{}}
}

// refuse lets no further calls begin, for a reason that their answers give.
func (c *conn) refuse(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = cause
	}
}

// end does that, and cancels what runs.
func (c *conn) end(cause error) {
	c.stop(cause)
	c.refuse(context.Cause(c.ctx))
	c.mu.Lock()
	leave := c.leave
	c.leave = nil
	c.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// wait returns when everything has been answered.
func (c *conn) wait() { c.active.Wait() }

// handle begins to answer a message. It returns before the calls have ended,
// but may wait for a client that does not read its answers.
func (c *conn) handle(message []byte) {
	all, batch := parse(message, c.door.opts.MaxBatch)
	a := &answer{conn: c, batch: batch, left: len(all)}
	for _, r := range all {
		c.begin(r, a)
	}
}

func (c *conn) begin(r request, a *answer) {
	refuse := func(f *fault) {
		if r.id == nil {
			a.add(nil)
			return
		}
		a.add([][]byte{faultMessage(r.id, f)})
	}
	if r.fault != nil {
		refuse(r.fault)
		return
	}
	m, ok := c.door.methods[r.method]
	if !ok {
		refuse(protocolFault(jsonrpc.CodeMethodNotFound, text.Clip(r.method, 64)))
		return
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	k := &call{conn: c, id: r.id, key: idKey(r.id), size: len(r.params), cancel: cancel}
	ctx = context.WithValue(ctx, callKey{}, k)
	http := bridge.CallerOf(ctx) // of the request that opened the connection
	ctx = bridge.WithCaller(ctx, bridge.Caller{Name: http.Name, Connection: http.Request, Request: text.Clip(string(r.id), 64)})
	if m.inline {
		defer cancel(nil)
		a.add(c.run(ctx, k, m, r.params))
		return
	}
	if err := c.admit(k); err != nil {
		cancel(nil)
		refuse(faultOf(c.ctx, err))
		return
	}
	go func() {
		defer c.active.Done()
		defer c.dismiss(k)
		select {
		case c.slots <- struct{}{}:
			// Held until the answer is on its way: a client that does not
			// read must not pile up results.
			a.add(c.run(ctx, k, m, r.params))
			<-c.slots
		case <-ctx.Done():
			refuse(faultOf(ctx, ctx.Err()))
		}
	}()
}

// admit takes a call in, if there is room. The caller must call active.Done.
func (c *conn) admit(k *call) error {
	o := c.door.opts
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended != nil:
		return c.ended
	case len(c.calls) >= o.MaxConcurrent+o.MaxQueued:
		return &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("%d requests of this connection are under way", len(c.calls)),
			Remedy: "wait for some of the answers first"}
	case c.bytes+k.size > int(o.MaxMessage)*4:
		return &bridge.Error{Code: bridge.CodeBusy, Message: "the requests of this connection that are under way are too large together",
			Remedy: "wait for some of the answers first"}
	}
	c.calls[k] = struct{}{}
	c.bytes += k.size
	c.active.Add(1)
	return nil
}

func (c *conn) dismiss(k *call) {
	k.cancel(nil)
	c.door.found.Add(-k.found)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, k)
	c.bytes -= k.size
}

// cancelCall ends the calls with an id. One that has ended already, or never
// was, is nothing to complain about.
func (c *conn) cancelCall(id json.RawMessage) {
	key := idKey(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.calls {
		if k.id != nil && k.key == key {
			k.cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "the client canceled the request"})
		}
	}
}

// run calls a method and returns the message that answers it, in pieces, nil
// for a notification.
func (c *conn) run(ctx context.Context, k *call, m *method, raw json.RawMessage) [][]byte {
	result, err := c.invoke(ctx, k, m, raw)
	var message [][]byte
	if err == nil && k.id != nil {
		message, err = resultMessage(k.id, result)
	}
	if err != nil {
		f := faultOf(ctx, err)
		c.door.logFailure(ctx, m.name, f, err)
		if k.id != nil {
			message = [][]byte{faultMessage(k.id, f)}
		}
	}
	return message
}

func (c *conn) invoke(ctx context.Context, k *call, m *method, raw json.RawMessage) (result any, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			c.door.opts.Logger.Error("toolbus.method_panicked", "method", m.name, "panic", fmt.Sprint(broken), "stack", string(debug.Stack()))
			err = &bridge.Error{Code: bridge.CodeInternal, Message: "the bridge failed on this request; its log says more"}
		}
	}()
	params, err := m.decode(raw)
	if err != nil {
		return nil, err
	}
	return m.call(ctx, k, params)
}

// progress tells the client what a running call puts out.
func (k *call) progress(ctx context.Context) Progress {
	return func(stream, text string) {
		if k.id == nil || text == "" || !k.conn.to.notifies() {
			return
		}
		// Neither a client that is gone nor a call that was canceled needs it.
		if message, err := notification("bridge.progress", progressParams{k.id, stream, text}); err == nil {
			_ = k.conn.to.send(ctx, message)
		}
	}
}

// answer gathers what one message is answered with, and sends it when the last
// of its requests is done.
type answer struct {
	conn  *conn
	batch bool

	mu    sync.Mutex
	left  int
	parts [][][]byte // each in pieces
}

// add takes the answer to one request, nil if it has none. The last
// one sends the message.
func (a *answer) add(part [][]byte) {
	a.mu.Lock()
	if part != nil {
		a.parts = append(a.parts, part)
	}
	a.left--
	ready := a.left == 0 && len(a.parts) > 0
	a.mu.Unlock()
	if !ready {
		return
	}
	message := a.parts[0]
	if a.batch {
		message = nil
		for i, part := range a.parts {
			message = append(append(message, []byte{"[,"[min(i, 1)]}), part...)
		}
		message = append(message, []byte{']'})
	}
	// Canceling a call does not take away its answer, so only the transport
	// can fail, which means that the client is gone.
	_ = a.conn.to.send(context.Background(), message...)
}
