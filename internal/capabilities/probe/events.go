package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
)

type fact = capabilities.Fact

// events keeps what a session says. The SDK adds, the experiment reads.
type events struct {
	mu   sync.Mutex
	all  []copilot.SessionEvent
	news chan struct{} // closed and replaced with each event
}

func newEvents() *events { return &events{news: make(chan struct{})} }

func (l *events) add(e copilot.SessionEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
	close(l.news)
	l.news = make(chan struct{})
}

func (l *events) since(n int) []copilot.SessionEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all[min(n, len(l.all)):])
}

func (l *events) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// await waits for an event after the first n that f accepts.
func (l *events) await(ctx context.Context, n int, f func(copilot.SessionEvent) bool) (copilot.SessionEvent, error) {
	for {
		l.mu.Lock()
		news := l.news
		for ; n < len(l.all); n++ {
			if e := l.all[n]; f(e) {
				l.mu.Unlock()
				return e, nil
			}
		}
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return copilot.SessionEvent{}, ctx.Err()
		}
	}
}

// within is await with a bound, for what may never come.
func (l *events) within(ctx context.Context, n int, f func(copilot.SessionEvent) bool) (copilot.SessionEvent, bool) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	e, err := l.await(ctx, n, f)
	return e, err == nil
}

// soon is within for what is expected to come: on a busy machine it may take
// its time.
func (l *events) soon(ctx context.Context, n int, f func(copilot.SessionEvent) bool) (copilot.SessionEvent, bool) {
	ctx, cancel := context.WithTimeout(ctx, expectation)
	defer cancel()
	e, err := l.await(ctx, n, f)
	return e, err == nil
}

func is[T any](e copilot.SessionEvent) bool { _, ok := e.Data.(T); return ok }

// idle says that the session's own turn is over.
func idle(e copilot.SessionEvent) bool { return is[*rpc.SessionIdleData](e) && e.AgentID == nil }

func all[T any](list []copilot.SessionEvent) []T {
	var out []T
	for _, e := range list {
		if d, ok := e.Data.(T); ok {
			out = append(out, d)
		}
	}
	return out
}

// script is a prompt that tells the rehearsal model what to answer.
func script(directives ...string) string {
	return "rehearsal: " + strings.Join(directives, "\nrehearsal: ")
}

// tool is the directive for a call.
func tool(name string, args map[string]any) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // our own literal
	}
	return fmt.Sprintf("tool %s %s", name, b)
}

// say begins a turn.
func (s *session) say(ctx context.Context, directives ...string) (from int, err error) {
	from = s.count()
	_, err = s.Send(ctx, copilot.MessageOptions{Prompt: script(directives...)})
	return from, err
}

// turn is a whole one.
func (s *session) turn(ctx context.Context, directives ...string) ([]copilot.SessionEvent, error) {
	from, err := s.say(ctx, directives...)
	if err != nil {
		return nil, err
	}
	if _, err := s.await(ctx, from, idle); err != nil {
		return nil, errors.Join(fmt.Errorf("the turn did not end; it said %s", names(s.since(from))), err)
	}
	return s.since(from), nil
}

// names lists the types of events, each once.
func names(list []copilot.SessionEvent) string {
	var out []string
	for _, e := range list {
		out = append(out, string(e.Type()))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// lastText is what the agent said last.
func lastText(list []copilot.SessionEvent) string {
	text := ""
	for _, m := range all[*rpc.AssistantMessageData](list) {
		text = m.Content
	}
	return text
}

// keys names the fields that are set in what v is on the wire.
func keys(v any) string {
	b, err := json.Marshal(v)
	var m map[string]any
	if err != nil || json.Unmarshal(b, &m) != nil {
		return "not an object"
	}
	var out []string
	for k, x := range m {
		if x != nil {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
