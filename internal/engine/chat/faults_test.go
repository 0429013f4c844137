package chat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

func types(o outcome) string {
	var out []string
	for _, ev := range o.events {
		out = append(out, string(bridge.TypeOf(ev)))
	}
	return strings.Join(out, " ")
}

func TestErrorsBeforeAndAfterTheFirstWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := scripted(t, Options{}, engine.Limits{})
		o := ask(t.Context(), s, chatOf(script("usage 1 1", "status 400 no")))
		if len(o.events) != 0 || bridge.CodeOf(o.err) != bridge.CodeProvider || bridge.AsError(o.err).Status != 400 {
			t.Errorf("%s, %v", types(o), o.err)
		}
		o = ask(t.Context(), s, chatOf(script("text half", "status 400 no")))
		if types(o) != "text error turn_ended" || o.end().Reason != bridge.EndFailed || bridge.CodeOf(o.err) != bridge.CodeProvider {
			t.Errorf("%s, %v", types(o), o.err)
		}
		synctest.Wait()
		if st := s.Stats(); st.Pooled != 1 {
			t.Errorf("one clean session should be left: %+v", st)
		}
		o = ask(t.Context(), s, chatOf(script("text half", "crash")))
		if types(o) != "text error turn_ended" || bridge.CodeOf(o.err) != bridge.CodeCrashed {
			t.Errorf("%s, %v", types(o), o.err)
		}
		synctest.Wait()
		if st := s.Stats(); st.Conversations != 0 || st.Pooled != 0 || st.Running != 0 {
			t.Errorf("%+v", st)
		}
		ask(t.Context(), s, chatOf(say("fine"))).good(t, bridge.EndDone, "fine")
	})
}

// A conversation on a dead runtime is told again elsewhere, unnoticed by the client.
func TestKeptSessionsOfADeadRuntime(t *testing.T) {
	for _, held := range []bool{true, false} {
		s, a := scripted(t, Options{}, engine.Limits{})
		c := chatOf(user("hello\nrehearsal: text hi"))
		c.Messages = append(c.Messages, ask(t.Context(), s, c).good(t, bridge.EndDone, "hi").reply(), user("so\nrehearsal: text on"))
		quiet(t, s)
		s.mu.Lock()
		conv := s.held[len(s.held)-1]
		s.mu.Unlock()
		if !held {
			s.mu.Lock()
			s.release(conv)
			s.mu.Unlock()
			s.keep(conv.shape, conv.session)
			c.Messages = []bridge.Message{say("on")}
		}
		for range conv.session.Send(t.Context(), agenttest.Script("crash")) { // only its end matters
		}
		o := ask(t.Context(), s, c)
		if o.err != nil || !strings.HasSuffix(o.text(), "on") {
			t.Errorf("held %v: %q, %v", held, o.text(), o.err)
		}
		if opened, resumed := a.Counts(); opened != 2 || resumed != 0 {
			t.Errorf("held %v: %d opened, %d resumed", held, opened, resumed)
		}
	}
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := scripted(t, Options{}, engine.Limits{MaxConcurrent: 1, QueueLimit: 1, QueueTimeout: 2 * time.Minute})
		c := chatOf(user("hello\nrehearsal: text hi"))
		c.Messages = append(c.Messages, ask(t.Context(), s, c).good(t, bridge.EndDone, "hi").reply(), user("so\nrehearsal: text on"))
		synctest.Wait()
		results := make(chan outcome, 2)
		for range 2 {
			go func() { results <- ask(t.Context(), s, chatOf(script("delay 1m", "text slow"))) }()
			synctest.Wait()
		}
		o := ask(t.Context(), s, c)
		if bridge.CodeOf(o.err) != bridge.CodeBusy || bridge.AsError(o.err).RetryAfter == 0 || len(o.events) != 0 {
			t.Errorf("%s, %v", types(o), o.err)
		}
		if opened, _ := a.Counts(); opened != 2 {
			t.Errorf("%d sessions were opened for turns that could not run", opened)
		}
		for range 2 {
			(<-results).good(t, bridge.EndDone, "slow")
		}
		// The conversation has not been lost by it.
		ask(t.Context(), s, c).good(t, bridge.EndDone, "on")
		if opened, _ := a.Counts(); opened != 3 {
			t.Errorf("%d sessions were opened", opened)
		}
	})
}

// parkedBehind returns a conversation with a parked call, and the request that
// brings its result while another turn holds the only seat for a minute.
func parkedBehind(t *testing.T) (*Service, *conversation, <-chan outcome) {
	t.Helper()
	s, _ := scripted(t, Options{ParkTimeout: 10 * time.Second}, engine.Limits{MaxConcurrent: 1, QueueLimit: 9, IdleTimeout: 2 * time.Minute, ParkTimeout: 10 * time.Second, QueueTimeout: 2 * time.Minute})
	c := withTools(chatOf(user("go\nrehearsal: tool look {}\nrehearsal: next\nrehearsal: text seen")), "look")
	o := ask(t.Context(), s, c).good(t, bridge.EndTools, "")
	synctest.Wait()
	s.mu.Lock()
	conv := s.held[len(s.held)-1]
	s.mu.Unlock()
	go ask(t.Context(), s, chatOf(script("delay 1m", "text slow")))
	synctest.Wait()
	c.Messages = append(c.Messages, o.reply(), result(o.calls()[0].ID, "x"))
	results := make(chan outcome, 1)
	go func() { results <- ask(t.Context(), s, c) }()
	synctest.Wait()
	return s, conv, results
}

// A client that has answered in time is not cut off because the bridge is
// busy.
func TestResultsWaitForASeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, results := parkedBehind(t)
		(<-results).good(t, bridge.EndDone, "seen")
	})
}

// A parked turn that ends while its results wait is told anew.
func TestParkedTurnEndsUnderItsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conv, results := parkedBehind(t)
		conv.cancel(errors.New("gone"))
		(<-results).good(t, bridge.EndTools, "") // the script begins anew, too
		synctest.Wait()
		if st := s.Stats(); st.Running != 0 || st.Parked != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := scripted(t, Options{}, engine.Limits{})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := &bridge.Error{Code: bridge.CodeTimeout, Message: "enough"}
		time.AfterFunc(time.Second, func() { cancel(why) })
		o := ask(ctx, s, chatOf(script("text half", "silence")))
		if types(o) != "text" || !errors.Is(o.err, why) {
			t.Errorf("%s, %v", types(o), o.err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if o := ask(ctx, s, chatOf(script("silence"))); len(o.events) != 0 || bridge.CodeOf(o.err) != bridge.CodeCanceled {
			t.Errorf("%s, %v", types(o), o.err)
		}
		// Leaving an answer with tool calls at its end does not abort them.
		c := withTools(chatOf(script("tool look {}", "next", "text seen")), "look")
		var calls []bridge.ToolCall
		for ev := range read(t.Context(), s, c) {
			if m, ok := ev.(bridge.MessageDone); ok {
				calls = m.Calls
			}
			if e, ok := ev.(bridge.TurnEnded); ok && e.Reason == bridge.EndTools {
				break
			}
		}
		c.Messages = append(c.Messages, bridge.Message{Role: bridge.RoleAssistant, Calls: calls}, result(calls[0].ID, "x"))
		ask(t.Context(), s, c).good(t, bridge.EndDone, "seen")
		synctest.Wait()
		if st := s.Stats(); st.Running != 0 || st.Parked != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A slow reader holds its own turn up and nothing else.
func TestSlowReader(t *testing.T) {
	s, _ := scripted(t, Options{}, engine.Limits{})
	many := script("chunks " + strings.Repeat("x|", 500) + "end")
	n := 0
	for ev, err := range read(t.Context(), s, chatOf(many)) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(bridge.TextDelta); ok {
			if n++; n == 10 {
				ask(t.Context(), s, chatOf(say("quick"))).good(t, bridge.EndDone, "quick")
			}
		}
	}
	if n != 501 {
		t.Errorf("%d pieces", n)
	}
}

func TestAgentProfile(t *testing.T) {
	dir := t.TempDir()
	s, a := scripted(t, Options{
		AgentSpec: func([]bridge.ToolSpec) (bridge.SessionSpec, error) {
			return bridge.SessionSpec{WorkingDir: dir, Gate: agenttest.AllowAll()}, nil
		},
		Prompt: func(context.Context, string, string) (string, error) { return "", errors.New("agents have a gate") },
	}, engine.Limits{})
	file := filepath.Join(dir, "a.txt")
	c := withTools(chatOf(script(agenttest.Tool("create", map[string]any{"path": file, "file_text": "x"}), "next", "text made it")), "look")
	c.Profile = bridge.ProfileAgent
	o := ask(t.Context(), s, c).good(t, bridge.EndDone, "made it")
	if got := types(o); got != "tool_started permission_asked permission_decided tool_finished text message turn_ended" {
		t.Errorf("events %s", got)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	// It continues and hands out the client's tools, but its session is never used
	// for another caller.
	c.Messages = append(c.Messages, o.reply(), script("tool look {}", "next", "text seen"))
	o = ask(t.Context(), s, c).good(t, bridge.EndTools, "")
	c.Messages = append(c.Messages, o.reply(), result(o.calls()[0].ID, "x"))
	ask(t.Context(), s, c).good(t, bridge.EndDone, "seen")
	quiet(t, s)
	if opened, _ := a.Counts(); opened != 1 {
		t.Errorf("%d sessions", opened)
	}
	s.mu.Lock()
	conv := s.held[len(s.held)-1]
	s.release(conv)
	s.mu.Unlock()
	s.dispose(conv)
	if left, err := a.List(t.Context()); err != nil || len(left) != 0 || s.Stats().Pooled != 0 {
		t.Errorf("left %v, %v, %+v", left, err, s.Stats())
	}
}

func TestReady(t *testing.T) {
	s, a := scripted(t, Options{}, engine.Limits{})
	for range 2 {
		if err := s.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if opened, _ := a.Counts(); opened != 1 || s.Stats().Pooled != 1 {
		t.Errorf("%d opened, %+v", opened, s.Stats())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := ask(t.Context(), s, chatOf(say("x"))); bridge.CodeOf(o.err) != bridge.CodeUnavailable {
		t.Errorf("after Close: %v", o.err)
	}
}
