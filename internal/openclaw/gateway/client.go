package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Client is a connection to a gateway that mends itself. Nothing is connected
// before the first call. Its methods may be called concurrently.
type Client struct {
	opts Options

	mu      sync.Mutex
	started bool
	closed  bool
	cancel  context.CancelFunc // of the keeper
	done    chan struct{}      // closed when the keeper has gone
	wake    chan struct{}      // ends a pause between attempts early
	conn    *conn              // nil while there is none
	trouble error              // why there is none; nil while one is being tried
	fatal   error              // why there never will be one
	changed chan struct{}      // closed and replaced when the state changes
	follows map[*Subscription]struct{}
}

// New returns a client. The caller must close it.
func New(opts Options) *Client {
	return &Client{opts: opts.defaults(), done: make(chan struct{}), wake: make(chan struct{}, 1), changed: make(chan struct{}), follows: map[*Subscription]struct{}{}}
}

// Call asks the gateway and returns its answer. Without a connection it waits
// for the attempt that is under way; between attempts it fails at once. A call
// whose connection is lost fails and is not repeated, since it may have been
// carried out.
func (c *Client) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return c.call(ctx, method, params, nil)
}

// CallTwice is Call for methods that answer twice: first that they have begun,
// which accepted hears, then with the outcome.
func (c *Client) CallTwice(ctx context.Context, method string, params any, accepted func(json.RawMessage)) (json.RawMessage, error) {
	if accepted == nil {
		accepted = func(json.RawMessage) {}
	}
	return c.call(ctx, method, params, accepted)
}

func (c *Client) call(ctx context.Context, method string, params any, accepted func(json.RawMessage)) (json.RawMessage, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.Answer)
		defer cancel()
	}
	conn, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	return conn.call(ctx, method, params, accepted)
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

// connected returns the connection, and waits for the attempt under way.
func (c *Client) connected(ctx context.Context) (*conn, error) {
	for {
		c.mu.Lock()
		if !c.started && !c.closed {
			c.start()
		}
		conn, changed := c.conn, c.changed
		err := c.fatal
		if err == nil && c.closed {
			err = &bridge.Error{Code: bridge.CodeUnavailable, Message: "the connection to OpenClaw's gateway is closed"}
		}
		if err == nil && conn == nil {
			err = c.trouble
		}
		c.mu.Unlock()
		if conn != nil || err != nil {
			return conn, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, &bridge.Error{Code: bridge.CodeOf(ctx.Err()), Message: "OpenClaw's gateway is not connected yet", Cause: context.Cause(ctx)}
		}
	}
}

// Retry ends the pause before the next attempt to connect, if there is one.
func (c *Client) Retry() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// start starts the keeper. The caller holds mu.
func (c *Client) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.started, c.cancel = true, cancel
	go func() {
		defer close(c.done)
		c.keep(ctx)
	}()
}

// Close ends the connection and waits for all that belongs to it.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	started := c.started
	if started {
		c.cancel()
	}
	c.announce()
	c.mu.Unlock()
	if started {
		<-c.done
	}
}

// announce lets those look again who wait for a change. The caller holds mu.
func (c *Client) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// keep connects, and connects again, until ctx ends or it is of no use. All
// changes of the connection are made here.
func (c *Client) keep(ctx context.Context) {
	failures := 0
	useDevice := false
	for {
		c.set(nil, nil)
		conn, err := c.dial(ctx, useDevice)
		var refused *refusedError
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				conn.close()
			}
			return
		case errors.As(err, &refused) && refused.retryWithDevice && !useDevice && c.deviceToken() != "":
			useDevice = true // once, with what the gateway itself has given us
			continue
		case errors.As(err, &refused) && refused.final:
			c.stop(err)
			return
		}
		var asked time.Duration
		if err == nil {
			c.set(conn, nil)
			began := time.Now()
			err = conn.serve(ctx, c.events)
			if time.Since(began) > c.opts.Most {
				failures = 0 // one that hangs up at once is as bad as one that is not there
			}
			c.set(nil, err)
			if ctx.Err() != nil {
				return
			}
			if errors.As(err, &refused) && refused.final {
				c.stop(err)
				return
			}
		}
		if errors.As(err, &refused) {
			asked = refused.after
		}
		pause := c.opts.pause(failures, asked)
		failures++
		c.set(nil, err)
		c.opts.Logger.Info("OpenClaw's gateway is not connected", "error", err, "next_attempt_in", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.wake:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (c *Client) set(conn *conn, trouble error) {
	c.mu.Lock()
	c.conn, c.trouble = conn, trouble
	c.announce()
	var again []*Subscription
	if conn != nil {
		for s := range c.follows {
			again = append(again, s)
		}
	}
	c.mu.Unlock()
	for _, s := range again {
		conn.follow(s)
	}
}

func (c *Client) stop(err error) {
	c.mu.Lock()
	c.conn, c.fatal = nil, err
	c.announce()
	c.mu.Unlock()
	c.opts.Logger.Warn("OpenClaw's gateway refuses the connection; it is not tried again", "error", err)
}

func (c *Client) deviceToken() string {
	if c.opts.Identity == nil {
		return ""
	}
	return c.opts.Identity.token(c.opts.URL)
}
