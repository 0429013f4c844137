package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// A login that was refused is looked for again, though not with every request,
// and nobody is answered by the demo model meanwhile.
func TestRefusedLoginIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried, loggedIn := 0, false
		b := &Bridge{opts: Options{Logger: slog.New(slog.DiscardHandler), DemoIfNone: true, Patient: true}}
		b.agents = engine.NewAgents(b.opts.Logger, b.candidate("sdk", func(made *Bridge, _ context.Context) (engine.Agent, error) {
			tried++
			if !loggedIn {
				return nil, &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "refused"}
			}
			if made.opts.DemoIfNone {
				t.Error("the demo model may answer")
			}
			made.Answers = answers.Who{Answers: bridge.Answers{Kind: bridge.AnswersGitHub}}
			return agenttest.NewScripted(), nil
		}))
		refused := b.agents.Choose(t.Context())
		b.started = true
		again := b.agents.Choose(t.Context())
		if bridge.CodeOf(refused) != bridge.CodeUnauthenticated || !errors.Is(again, refused) || tried != 1 {
			t.Errorf("%v, then %v after %d tries", refused, again, tried)
		}
		loggedIn = true
		time.Sleep(refusedFor) // the bubble's time
		if err := b.agents.Choose(t.Context()); err != nil || tried != 2 {
			t.Errorf("%v after %d tries", err, tried)
		}
		if got := b.answers(agenttest.NewScripted().Name()); got.Kind != bridge.AnswersGitHub {
			t.Errorf("answered by %+v", got)
		}
	})
}
