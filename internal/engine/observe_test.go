package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// notes is an observer that writes down what it is told, in a line each.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) SessionOpened(s *engine.Session, r engine.Request) engine.Watcher {
	n.add("opened by %s", r.Door)
	return n
}
func (n *notes) TurnBegan(_ context.Context, p bridge.Prompt)   { n.add("turn %s", p.Text) }
func (n *notes) Said(p bridge.Prompt)                           { n.add("said %s by %s", p.Text, p.By) }
func (n *notes) Event(ev bridge.Event)                          { n.add("%s", bridge.TypeOf(ev)) }
func (n *notes) Resolved(requestID string, r bridge.ToolResult) { n.add("resolved %s", r.Text) }
func (n *notes) SessionClosed()                                 { n.add("closed") }

func (n *notes) count(line string) (found int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.lines {
		if l == line {
			found++
		}
	}
	return found
}

// An observer is told what the reader of a turn is told, and of the session's
// beginning and end.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{}
		e, s := open(t, engine.Options{Observer: n}, engine.Request{Door: "test"})
		o := turn(t.Context(), s, script("text one", `tool create {"path":"`+t.TempDir()+`/f"}`, "next", "usage 1 2", "text two"))
		if o.err != nil {
			t.Fatal(o.err)
		}
		var want []string
		for _, ev := range o.events {
			want = append(want, string(bridge.TypeOf(ev)))
		}
		if got := n.lines[2:]; n.lines[0] != "opened by test" || !slices.Equal(got, want) {
			t.Errorf("told %q, the reader %q", n.lines, want)
		}

		// Messages for a running turn; then the reader leaves.
		n.lines = nil
		done := make(chan outcome)
		go func() { done <- turn(t.Context(), s, script("delay 1m", "text one")) }()
		synctest.Wait()
		p := agenttest.Say("more")
		p.By = "dashboard"
		if err := s.Enqueue(p); err != nil {
			t.Fatal(err)
		}
		<-done
		if n.count("said "+p.Text+" by dashboard") != 1 || n.count("turn_ended") != 1 {
			t.Errorf("%q", n.lines)
		}
		n.lines = nil
		for ev := range s.Send(t.Context(), script("text one", "next", "text two")) {
			if _, said := ev.(bridge.TextDelta); said {
				break
			}
		}
		if last := n.lines[len(n.lines)-1]; last != "turn_ended" || n.count(last) != 1 {
			t.Errorf("after the reader has left: %q", n.lines)
		}

		n.lines = nil
		if err := s.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"closed", "opened by test", "closed"}; !slices.Equal(n.lines, want) {
			t.Errorf("%q, not %q", n.lines, want)
		}
	})
}

func TestObserverOfTheCallersTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{}
		_, s := open(t, engine.Options{Observer: n}, engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileChat, Tools: []bridge.ToolSpec{{Name: "weather"}}}})
		for ev, err := range s.Send(t.Context(), script(`tool weather {"city":"Rome"}`, "next", "text sunny")) {
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := ev.(bridge.ToolRequested); ok {
				if err := s.Resolve(t.Context(), e.RequestID, bridge.ToolResult{Text: "sun"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n.count("tool_requested") != 1 || n.count("resolved sun") != 1 {
			t.Errorf("%q", n.lines)
		}
	})
}
