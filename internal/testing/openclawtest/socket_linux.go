package openclawtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// Event is something that the gateway told.
type Event struct {
	Name    string
	Payload json.RawMessage
}

// Socket is a client of the gateway as a chat window would be one: it also
// hears what tools do. Its methods may be called concurrently.
type Socket struct {
	ws   *websocket.Conn
	done chan struct{} // closed when nothing more is read

	mu      sync.Mutex
	next    int
	answers map[string]chan frame
	events  []Event
	changed chan struct{} // closed and replaced with every event
	fault   error
}

type frame struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Event   string          `json:"event,omitempty"`
	OK      bool            `json:"ok,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Connect opens a connection, which is closed when the test ends.
func (g *Gateway) Connect(tb testing.TB) *Socket {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(g.URL, "http"), nil)
	if err != nil {
		tb.Fatalf("connect to the gateway: %v", err)
	}
	if resp.Body != nil {
		_ = resp.Body.Close() // the connection is the socket's now
	}
	ws.SetReadLimit(16 << 20)
	s := &Socket{ws: ws, done: make(chan struct{}), answers: map[string]chan frame{}, changed: make(chan struct{})}
	go s.read()
	tb.Cleanup(func() {
		_ = ws.CloseNow()
		<-s.done
	})
	s.Wait(tb, "the challenge", func(e Event) bool { return e.Name == "connect.challenge" })
	if _, err := s.Call(ctx, "connect", map[string]any{
		"minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": []string{"operator.read", "operator.write", "operator.admin"}, "caps": []string{"tool-events"},
		"client": map[string]any{"id": "gateway-client", "displayName": "test", "version": "1", "platform": "linux", "mode": "backend"},
		"auth":   map[string]any{"token": g.Token},
	}); err != nil {
		tb.Fatal(err)
	}
	return s
}

func (s *Socket) read() {
	defer close(s.done)
	for {
		var f frame
		err := wsjson.Read(context.Background(), s.ws, &f) // ends when the socket is closed
		s.mu.Lock()
		if err != nil {
			s.fault = err
			for _, c := range s.answers {
				close(c)
			}
			s.answers = nil
			close(s.changed)
			s.mu.Unlock()
			return
		}
		switch f.Type {
		case "res":
			if c := s.answers[f.ID]; c != nil {
				delete(s.answers, f.ID)
				c <- f
			}
		case "event":
			s.events = append(s.events, Event{f.Event, f.Payload})
			close(s.changed)
			s.changed = make(chan struct{})
		}
		s.mu.Unlock()
	}
}

// Call asks the gateway and returns its first answer.
func (s *Socket) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	s.mu.Lock()
	if s.fault != nil {
		s.mu.Unlock()
		return nil, s.fault
	}
	s.next++
	id, answer := strconv.Itoa(s.next), make(chan frame, 1)
	s.answers[id] = answer
	s.mu.Unlock()
	if err := wsjson.Write(ctx, s.ws, frame{Type: "req", ID: id, Method: method, Params: params}); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case f, ok := <-answer:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: %w", method, errors.New("the connection was closed"))
		case !f.OK:
			return nil, fmt.Errorf("%s: %s", method, f.Error)
		}
		return f.Payload, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// Wait waits for an event, those included that have come already.
func (s *Socket) Wait(tb testing.TB, what string, wanted func(Event) bool) Event {
	tb.Helper()
	late := time.After(3 * time.Minute)
	for seen := 0; ; {
		s.mu.Lock()
		events, changed, fault := s.events[seen:], s.changed, s.fault
		s.mu.Unlock()
		for _, e := range events {
			if wanted(e) {
				return e
			}
		}
		seen += len(events)
		if fault != nil {
			tb.Fatalf("waiting for %s: %v", what, fault)
		}
		select {
		case <-changed:
		case <-late:
			tb.Fatalf("%s did not come; of %d events the last are %s", what, seen, s.last(10))
		}
	}
}

func (s *Socket) last(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, e := range s.events[max(0, len(s.events)-n):] {
		fmt.Fprintf(&b, "\n%s %.500s", e.Name, e.Payload)
	}
	return b.String()
}
