//go:build unix

package sdk_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
)

// Premium requests are counted as GitHub counts them: those of a person, times
// the model's multiplier, whatever becomes of the answer.
func TestPremiumRequestsAreCounted(t *testing.T) {
	t.Parallel()
	bash := agenttest.Tool("bash", map[string]any{"command": "true", "description": "nothing"})
	below := agenttest.Script(bash, "next", "text below").Text
	cases := map[string]struct {
		profile bridge.Profile
		prompt  bridge.Prompt
		answers []githubtest.Answer // of the stand-in, before those of the model
		leave   bool                // when the first event of the answer comes
		steer   bool                // when the tool has started
		forms   bool                // also on the other two kinds of endpoints
		want    float64             // requests of a person
	}{
		"chat":                       {profile: bridge.ProfileChat, prompt: agenttest.Script("text hello"), want: 1, forms: true},
		"tools":                      {prompt: agenttest.Script(bash, "next", bash, "next", "text done"), want: 1, forms: true},
		"sub-agent":                  {prompt: agenttest.Script(agenttest.Tool("task", map[string]any{"description": "d", "name": "n", "agent_type": "general-purpose", "mode": "sync", "prompt": below}), "next", "text done"), want: 1, forms: true},
		"tried again, refused first": {prompt: agenttest.Script("text hello"), answers: []githubtest.Answer{{Status: http.StatusBadGateway, Body: `{"error":{"message":"x"}}`}}, want: 0},
		"broken off in the answer":   {profile: bridge.ProfileChat, prompt: agenttest.Script("text one", "delay 20s", "text two"), leave: true, want: 1},
		"broken off before it":       {prompt: agenttest.Script("delay 20s", "text late"), leave: true, want: 1},
		"cut and tried again":        {prompt: agenttest.Script("text one", "cut", "once", "text two"), want: 1},
		"another message":            {prompt: agenttest.Script(agenttest.Tool("bash", map[string]any{"command": "sleep 1", "description": "wait"}), "next", "text done"), steer: true, want: 2},
	}
	for name, c := range cases {
		for model, path := range githubModels {
			if model != "gpt-5" && !c.forms {
				continue
			}
			t.Run(name+"/"+model, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				github := githubtest.Start(t)
				models := githubtest.UsualModels()
				for i := range models {
					models[i].Multiplier = 2.5
				}
				github.SetModels(models...)
				github.Answer(path, c.answers...)
				e := engine.New(engine.Options{Agent: sdk.New(onGitHub(t, github, model)), Limits: engine.Limits{MaxRetries: 3}})
				defer func() {
					if err := e.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				s, err := e.Open(ctx, engine.Request{Door: "test", Spec: bridge.SessionSpec{Profile: c.profile, Model: model, WorkingDir: t.TempDir(), Gate: &agenttest.Gate{}}})
				if err != nil {
					t.Fatal(err)
				}
				var end bridge.TurnEnded
				for ev, err := range s.Send(ctx, c.prompt) {
					if err != nil {
						t.Fatal(err)
					}
					_, called := ev.(bridge.ModelCalled)
					_, said := ev.(bridge.TextDelta)
					if _, started := ev.(bridge.ToolStarted); started && c.steer {
						if err := s.Steer(ctx, bridge.Prompt{Text: "and this"}); err != nil {
							t.Error(err)
						}
					}
					if c.leave && (said || called && c.profile != bridge.ProfileChat) {
						github.Await(t, path)
						break
					}
					if e, ok := ev.(bridge.TurnEnded); ok {
						end = e
					}
				}
				want := c.want * 2.5
				if got := github.Premium(); got != want {
					t.Errorf("GitHub would count %v, want %v", got, want)
				}
				if got := s.Usage().Premium; got != want {
					t.Errorf("counted %v for the session, want %v", got, want)
				}
				if !c.leave && end.Usage.Premium != want {
					t.Errorf("the end of the turn says %v, want %v", end.Usage.Premium, want)
				}
				rows := e.Usage()
				if want > 0 && (len(rows) != 1 || rows[0].Door != "test" || rows[0].Model != model || rows[0].Usage.Premium != want) {
					t.Errorf("the figures: %+v", rows)
				}
			})
		}
	}
}
