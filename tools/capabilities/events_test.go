package capabilities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// events keeps the events of a session. The SDK adds, the experiment reads.
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

// find waits for an event after the first n that f accepts.
func (l *events) find(ctx context.Context, n int, f func(copilot.SessionEvent) bool) (copilot.SessionEvent, error) {
	for {
		l.mu.Lock()
		news := l.news
		l.mu.Unlock()
		for _, e := range l.since(n) {
			n++
			if f(e) {
				return e, nil
			}
		}
		select {
		case <-news:
		case <-ctx.Done():
			return copilot.SessionEvent{}, ctx.Err()
		}
	}
}

// await waits for an event that must come.
func (s *session) await(n int, f func(copilot.SessionEvent) bool) copilot.SessionEvent {
	e, err := s.find(s.ctx, n, f)
	if err != nil {
		check(fmt.Errorf("an event did not come; the session said %s: %w", names(s.since(n)), err))
	}
	return e
}

// within waits for an event that may not come.
func (s *session) within(d time.Duration, n int, f func(copilot.SessionEvent) bool) (copilot.SessionEvent, bool) {
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	e, err := s.find(ctx, n, f)
	return e, err == nil
}

// resumed returns the session.resume event, which comes first; nil if it does
// not come.
func (s *session) resumed() *rpc.SessionResumeData {
	e, _ := s.within(expectation, 0, is[*rpc.SessionResumeData])
	d, _ := e.Data.(*rpc.SessionResumeData)
	return d
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

// script is a prompt that tells the demo model what to answer.
func script(directives ...string) string {
	return "rehearsal: " + strings.Join(directives, "\nrehearsal: ")
}

type args = map[string]any

// tool is the directive for a call.
func tool(name string, a args) string { return fmt.Sprintf("tool %s %s", name, must(json.Marshal(a))) }

func shell(command string) string { return tool("bash", args{"command": command, "description": "x"}) }

// say begins a turn and returns how many events came before it.
func (s *session) say(directives ...string) (from int) {
	from = len(s.since(0))
	must(s.Send(s.ctx, copilot.MessageOptions{Prompt: script(directives...)}))
	return from
}

// turn is a whole one.
func (s *session) turn(directives ...string) []copilot.SessionEvent {
	from := s.say(directives...)
	s.await(from, idle)
	return s.since(from)
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

func set(b *bool) bool { return b != nil && *b }
