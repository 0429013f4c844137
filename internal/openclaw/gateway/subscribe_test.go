package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
)

func TestSubscription(t *testing.T) {
	asked := make(chan string) // nothing is sent before the test is there to hear it
	script := func(p *peer) {
		p.admit()
		_, method, params, _ := p.next()
		select {
		case asked <- method + string(params):
		case <-p.ctx.Done():
		}
		for range 3 * maxEvents {
			p.send(`{"type":"event","event":"news","payload":1}`)
		}
		p.send(`{"type":"event","event":"last","payload":2}`)
	}
	b := newBroken(t, script, script, good)
	c := client(t, quick(b.url()))
	s := c.Subscribe(func(e string) bool { return e != "connect.challenge" }, Request{"sessions.subscribe", map[string]any{"a": 1}})
	defer s.Close()
	for range 2 { // again after a new connection
		if got := <-asked; got != `sessions.subscribe{"a":1}` {
			t.Errorf("asked %s", got)
		}
		all := 0
		for last := false; !last; {
			e, lost, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all, last = all+1+lost, e.Name == "last"
		}
		if all != 3*maxEvents+1 {
			t.Errorf("%d taken or lost", all)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, _, err := s.Next(ctx); err == nil {
		t.Error("an event after the end")
	}
}

func TestSlowReaderLosesTheOldest(t *testing.T) {
	s := &Subscription{ready: make(chan struct{}, 1)}
	for i := range maxEvents + 10 {
		s.put(Event{Name: "e", Payload: json.RawMessage{byte('0' + i%10)}})
	}
	if _, lost, err := s.Next(t.Context()); lost != 10 || err != nil || len(s.queue) != maxEvents-1 {
		t.Errorf("%d lost, %d left, %v", lost, len(s.queue), err)
	}
}
