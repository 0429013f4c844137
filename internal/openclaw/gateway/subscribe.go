package gateway

import (
	"context"
	"encoding/json"
	"sync"
)

// maxEvents is how many events wait for a reader; the oldest give way.
const maxEvents = 256

// Event is something that the gateway tells by itself.
type Event struct {
	Name    string
	Payload json.RawMessage
}

// Subscription hears events, across lost connections too.
type Subscription struct {
	client *Client
	ask    []Request
	wants  func(event string) bool

	mu      sync.Mutex
	queue   []Event
	dropped int
	ready   chan struct{} // of one
}

// Request is what makes the gateway send events.
type Request struct {
	Method string
	Params any
}

// Subscribe hears the events that wants selects. The requests are made now and
// after each new connection. The caller must close the subscription.
func (c *Client) Subscribe(wants func(event string) bool, ask ...Request) *Subscription {
	s := &Subscription{client: c, ask: ask, wants: wants, ready: make(chan struct{}, 1)}
	c.mu.Lock()
	c.follows[s] = struct{}{}
	conn := c.conn
	if !c.started && !c.closed {
		c.start()
	}
	c.mu.Unlock()
	if conn != nil {
		conn.follow(s)
	}
	return s
}

// follow makes the requests of a subscription. They are calls like any other,
// belong to the connection, and end with it.
func (n *conn) follow(s *Subscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended != nil {
		return
	}
	for _, r := range s.ask {
		n.asking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), n.opts.Answer)
			defer cancel()
			if _, err := n.call(ctx, r.Method, r.Params, nil); err != nil {
				n.opts.Logger.Warn("subscribing at OpenClaw's gateway", "method", r.Method, "error", err)
			}
		})
	}
}

// events hands an event to those who want it. It never waits for them.
func (c *Client) events(name string, payload json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.follows {
		if s.wants == nil || s.wants(name) {
			s.put(Event{name, payload})
		}
	}
}

func (s *Subscription) put(e Event) {
	s.mu.Lock()
	if len(s.queue) == maxEvents {
		s.queue = append(s.queue[:0], s.queue[1:]...)
		s.dropped++
	}
	s.queue = append(s.queue, e)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next returns the next event, and how many before it were lost because
// nobody took them.
func (s *Subscription) Next(ctx context.Context) (Event, int, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			e, lost := s.queue[0], s.dropped
			s.queue, s.dropped = s.queue[1:], 0
			s.mu.Unlock()
			return e, lost, nil
		}
		s.mu.Unlock()
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Event{}, 0, context.Cause(ctx)
		}
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	delete(s.client.follows, s)
}
