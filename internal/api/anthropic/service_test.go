package anthropic

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// player is a Service that does what a test tells it.
type player struct {
	play func(ctx context.Context, yield func(bridge.Event, error) bool)
	down error // of Model
	// model, if set, is what every name means.
	model string

	mu    sync.Mutex
	asked []bridge.Chat
}

func (s *player) Model(_ context.Context, name string) (bridge.ChatModel, error) {
	if s.down != nil {
		return bridge.ChatModel{}, s.down
	}
	if s.model != "" {
		name = s.model
	}
	thinker := bridge.Model{ID: "claude-sonnet-4.5", ReasoningEfforts: []string{"low", "medium", "high"}}
	switch name {
	case "claude-sonnet-4-5", "claude-opus-5-5":
		return bridge.ChatModel{Model: thinker, Name: "claude-sonnet-4.5", Profile: bridge.ProfileChat}, nil
	case "agent/claude-sonnet-4-5":
		return bridge.ChatModel{Model: thinker, Name: "agent/claude-sonnet-4.5", Profile: bridge.ProfileAgent}, nil
	case "gpt-5-mini":
		return bridge.ChatModel{Model: bridge.Model{ID: "gpt-5-mini"}, Name: "gpt-5-mini", Profile: bridge.ProfileChat}, nil
	case "anything":
		return bridge.ChatModel{Model: thinker, Name: "claude-sonnet-4.5", Profile: bridge.ProfileChat, Instead: name}, nil
	default:
		return bridge.ChatModel{}, &bridge.Error{Code: bridge.CodeNotFound, Message: `There is no model "` + name + `"`, Remedy: "There are claude-sonnet-4.5 and gpt-5-mini."}
	}
}

func (s *player) Answer(ctx context.Context, c bridge.Chat) iter.Seq2[bridge.Event, error] {
	s.mu.Lock()
	s.asked = append(s.asked, c)
	s.mu.Unlock()
	return func(yield func(bridge.Event, error) bool) { s.play(ctx, yield) }
}

// Stream runs the script in a goroutine, which leave waits for. A turn that has
// ended is not aborted.
func (s *player) Stream(ctx context.Context, c bridge.Chat) (<-chan bridge.Piece, func()) {
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

// plays returns a service that yields events, and then err if there is one.
func plays(err error, events ...bridge.Event) *player {
	return &player{play: func(_ context.Context, yield func(bridge.Event, error) bool) {
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

// says is a turn of one message that comes in these pieces.
func says(pieces ...string) []bridge.Event {
	var events []bridge.Event
	for _, s := range pieces {
		events = append(events, bridge.TextDelta{Message: "m1", Text: s})
	}
	return append(events, bridge.MessageDone{Message: "m1", Text: strings.Join(pieces, "")},
		bridge.TurnEnded{Reason: bridge.EndDone, Usage: bridge.Usage{Calls: 1, InputTokens: 12, OutputTokens: 5}})
}

// fixed is a door whose ids stand still.
func fixed(svc Service, opts Options) *door {
	d := newDoor(svc, opts)
	d.id = func(prefix string) string { return prefix + "1" }
	return d
}

func post(t *testing.T, d *door, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	d.mux().ServeHTTP(w, r)
	return w
}
