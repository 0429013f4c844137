package openai

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// script is a Service that plays what a test tells it.
type script struct {
	list   []bridge.ChatModel
	err    error // of Models and Model
	answer func(ctx context.Context, yield func(bridge.Event, error) bool)

	mu    sync.Mutex
	asked []bridge.Chat
}

func (s *script) Models(context.Context) ([]bridge.ChatModel, error) { return s.list, s.err }

func (s *script) Model(_ context.Context, name string) (bridge.ChatModel, error) {
	if s.err != nil {
		return bridge.ChatModel{}, s.err
	}
	for _, m := range s.list {
		if m.Name == name {
			return m, nil
		}
	}
	if name == "anything" {
		m := s.list[0]
		m.Instead = name
		return m, nil
	}
	return bridge.ChatModel{}, &bridge.Error{Code: bridge.CodeNotFound, Message: `there is no model "` + name + `"`, Remedy: "There are gpt-5 and agent/gpt-5."}
}

func (s *script) Answer(ctx context.Context, c bridge.Chat) iter.Seq2[bridge.Event, error] {
	s.mu.Lock()
	s.asked = append(s.asked, c)
	s.mu.Unlock()
	return func(yield func(bridge.Event, error) bool) { s.answer(ctx, yield) }
}

// Stream runs the script in a goroutine, which leave waits for. A turn that has
// ended is not aborted.
func (s *script) Stream(ctx context.Context, c bridge.Chat) (<-chan bridge.Piece, func()) {
	ctx, cancel := context.WithCancel(ctx)
	out, over := make(chan bridge.Piece, 64), atomic.Bool{}
	go func() {
		defer close(out)
		for ev, err := range s.Answer(ctx, c) {
			if _, ok := ev.(bridge.TurnEnded); ok {
				over.Store(true)
			}
			select {
			case out <- bridge.Piece{Event: ev, Err: err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, func() {
		if !over.Load() {
			cancel()
		}
		defer cancel()
		for range out { // until it is closed
		}
	}
}

// models that every script has.
func testModels() []bridge.ChatModel {
	return []bridge.ChatModel{
		{Model: bridge.Model{ID: "gpt-5", ReasoningEfforts: []string{"low", "high"}}, Name: "gpt-5", Profile: bridge.ProfileChat},
		{Model: bridge.Model{ID: "gpt-5"}, Name: "agent/gpt-5", Profile: bridge.ProfileAgent},
		{Model: bridge.Model{ID: "plain"}, Name: "plain", Profile: bridge.ProfileChat},
	}
}

// plays returns a script that yields the given events, and then err if there
// is one.
func plays(err error, events ...bridge.Event) *script {
	return &script{list: testModels(), answer: func(_ context.Context, yield func(bridge.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}}
}

// linesOf reads events from lines of JSON, as EncodeEvent writes them; a line
// that begins with "!" is an error.
func linesOf(t *testing.T, text string) (events []bridge.Event, err error) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if failure, ok := strings.CutPrefix(line, "!"); ok {
			e := new(bridge.Error)
			if err := e.UnmarshalJSON([]byte(failure)); err != nil {
				t.Fatal(err)
			}
			return events, e
		}
		if line == "" {
			continue
		}
		ev, err := bridge.DecodeEvent([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		events = append(events, ev)
	}
	return events, nil
}

// fixed is a door whose ids and clock stand still.
func fixed(svc Service) *door {
	d := newDoor(svc, Options{})
	d.now = func() time.Time { return time.Unix(1700000000, 0) }
	d.id = func(prefix string) string { return prefix + "1" }
	return d
}

// post sends a body to a path of the door.
func post(t *testing.T, d *door, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	d.mux().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return w
}

var errTest = errors.New("secret detail of the machine")
