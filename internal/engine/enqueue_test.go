package engine_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// A turn goes on with the messages that were enqueued for it, in their order,
// and ends once, with the usage of all.
func TestEnqueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := agenttest.NewScripted()
		_, s := open(t, engine.Options{Agent: agent}, engine.Request{})
		if err := s.Enqueue(agenttest.Say("early")); bridge.CodeOf(err) != bridge.CodeConflict {
			t.Errorf("without a turn: %v", err)
		}
		done := make(chan outcome)
		go func() { done <- turn(t.Context(), s, script("delay 1m", "usage 10 1", "text one")) }()
		synctest.Wait()
		for _, p := range []bridge.Prompt{script("usage 20 2", "text two"), script("text three")} {
			if err := s.Enqueue(p); err != nil {
				t.Fatal(err)
			}
		}
		if o := turn(t.Context(), s, agenttest.Say("beside")); bridge.CodeOf(o.err) != bridge.CodeConflict {
			t.Errorf("a second turn: %v", o.err)
		}
		o := <-done
		if o.err != nil {
			t.Fatal(o.err)
		}
		var said []string
		ends := 0
		for _, ev := range o.events {
			switch e := ev.(type) {
			case bridge.MessageDone:
				said = append(said, e.Text)
			case bridge.TurnEnded:
				ends++
				if e.Usage.InputTokens < 30 || e.Duration < time.Minute {
					t.Errorf("the end is not that of all: %+v", e)
				}
			default:
			}
		}
		if !slices.Equal(said, []string{"one", "two", "three"}) || ends != 1 {
			t.Errorf("said %q, %d ends", said, ends)
		}
		if err := s.Enqueue(agenttest.Say("late")); bridge.CodeOf(err) != bridge.CodeConflict {
			t.Errorf("after the turn: %v", err)
		}
	})
}

// Messages that a turn does not get to are not dropped in silence, and not kept
// for a later turn.
func TestEnqueuedIsNotSent(t *testing.T) {
	for name, tt := range map[string]struct {
		script []string
		abort  bool
	}{"aborted": {[]string{"silence"}, true}, "failed": {[]string{"delay 1m", "crash"}, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent := agenttest.NewScripted()
				_, s := open(t, engine.Options{Agent: agent}, engine.Request{})
				done := make(chan outcome)
				go func() { done <- turn(t.Context(), s, script(tt.script...)) }()
				synctest.Wait()
				for range maxQueue {
					if err := s.Enqueue(agenttest.Say("never")); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Enqueue(agenttest.Say("too many")); bridge.CodeOf(err) != bridge.CodeBusy {
					t.Errorf("too many: %v", err)
				}
				if tt.abort {
					if err := s.Abort(t.Context()); err != nil {
						t.Error(err)
					}
				}
				o := <-done
				told := slices.ContainsFunc(o.events, func(ev bridge.Event) bool {
					n, ok := ev.(bridge.Notice)
					return ok && strings.HasPrefix(n.Text, "16 messages not sent")
				})
				if _, ends := o.events[len(o.events)-1].(bridge.TurnEnded); !told || !ends {
					t.Errorf("%+v", o.events)
				}
				if o := turn(t.Context(), s, agenttest.Say("next")); o.err != nil {
					t.Error(o.err)
				}
				if sent := agent.Sent()[s.ID()]; slices.ContainsFunc(sent, func(p string) bool { return strings.Contains(p, "never") }) {
					t.Errorf("sent %q", sent)
				}
			})
		})
	}
}

const maxQueue = 16
