package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Client is a connection to a gateway. It connects when a call needs it, and
// again after a connection was lost, with growing pauses. It gives up only when
// its credentials are refused. Its methods may be called concurrently.
type Client struct {
	opts Options
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // of connect

	mu       sync.Mutex
	conn     *conn         // nil while there is none
	trying   chan struct{} // closed when the attempt under way has ended; nil if there is none
	trouble  error         // why the last connection failed or ended
	final    bool          // it is of no use to try again
	next     time.Time     // no attempt before this
	failures int           // in a row
}

// New returns a client. The caller must close it.
func New(opts Options) *Client {
	ctx, stop := context.WithCancel(context.Background())
	return &Client{opts: opts.defaults(), ctx: ctx, stop: stop}
}

// Call asks the gateway and returns its answer. Without a connection it waits
// for one; between attempts it fails at once. A call whose connection is lost
// fails and is not repeated, since it may have been carried out.
func (c *Client) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.Answer)
		defer cancel()
	}
	conn, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	return conn.call(ctx, method, params)
}

// Hello connects, unless that has been done, and returns what the gateway said
// of itself.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	conn, err := c.connected(ctx)
	if err != nil {
		return Hello{}, err
	}
	return conn.hello, nil
}

// connected returns the connection. If there is none, it starts an attempt, or
// waits for the one under way.
func (c *Client) connected(ctx context.Context) (*conn, error) {
	for {
		c.mu.Lock()
		conn, err, trying := c.conn, c.trouble, c.trying
		switch {
		case c.ctx.Err() != nil:
			conn, err = nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the connection to OpenClaw's gateway is closed"}
		case conn != nil:
			err = nil
		case trying == nil && (err == nil || !c.final && !time.Now().Before(c.next)):
			trying = make(chan struct{})
			c.trying = trying
			c.work.Go(c.connect)
			fallthrough
		case trying != nil:
			err = nil
		}
		c.mu.Unlock()
		if conn != nil || err != nil {
			return conn, err
		}
		select {
		case <-trying:
		case <-ctx.Done():
			return nil, &bridge.Error{Code: bridge.CodeOf(ctx.Err()), Message: "OpenClaw's gateway is not connected yet", Cause: context.Cause(ctx)}
		}
	}
}

// Close ends the connection and waits for all that belongs to it.
func (c *Client) Close() {
	c.mu.Lock()
	c.stop() // under mu: connected starts nothing afterwards
	c.mu.Unlock()
	c.work.Wait()
}

// connect makes a connection and reads from it until it ends.
func (c *Client) connect() {
	conn, err := c.dial(c.ctx, false)
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.retryWithDevice && c.deviceToken() != "" {
		conn, err = c.dial(c.ctx, true) // once, with what the gateway itself has given us
	}
	c.settle(conn, err)
	if err != nil {
		return
	}
	began := time.Now()
	err = conn.serve(c.ctx)
	if time.Since(began) > c.opts.Most {
		c.mu.Lock()
		c.failures = 0 // one that hangs up at once is as bad as one that is not there
		c.mu.Unlock()
	}
	c.settle(nil, err)
}

// settle notes how an attempt or a connection ended.
func (c *Client) settle(conn *conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trying != nil {
		close(c.trying)
		c.trying = nil
	}
	if c.conn, c.trouble = conn, err; err == nil || c.ctx.Err() != nil {
		return
	}
	refused, ok := errors.AsType[*refusedError](err)
	if c.final = ok && refused.final; c.final {
		c.opts.Logger.Warn("OpenClaw's gateway refuses the connection; it is not tried again", "error", err)
		return
	}
	var asked time.Duration
	if ok {
		asked = refused.after
	}
	pause := c.opts.pause(c.failures, asked)
	c.failures++
	c.next = time.Now().Add(pause)
	c.opts.Logger.Info("OpenClaw's gateway is not connected", "error", err, "next_attempt_in", pause)
}

func (c *Client) deviceToken() string {
	if c.opts.Identity == nil {
		return ""
	}
	return c.opts.Identity.token(c.opts.URL)
}
