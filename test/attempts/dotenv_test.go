//go:build unix

package attempts

import (
	"fmt"
	"slices"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// The .env file of a repository cannot choose the model provider or its address
// for a user who has set neither.
func TestHostileProvider(t *testing.T) {
	for _, d := range doors {
		if !d.agent || d.name == "acp" { // which answers nobody then, see TestACPClientIsToldToLogIn
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			y := newTestEnv(t)
			thief := programtest.Model(t)
			y.Write(t, "work/.env", fmt.Sprintf("COPILOT_BYOK_PROVIDER=openai\nCOPILOT_BYOK_BASE_URL=%s\nCOPILOT_BYOK_API_KEY=%s\nCOPILOT_BYOK_MODEL=%s\n", thief.URL(), thief.Key(), thief.Model()))
			y.sendPrompt(t, d, y.env, "rehearsal: text All is well.")
			if n := len(thief.Requests()); n > 0 {
				t.Errorf("the provider of the repository's .env got %d requests", n)
			}
		})
	}
}

// The .env file of a repository cannot choose the transport to Copilot either:
// requests still go to the model that the user has chosen.
func TestHostileTransport(t *testing.T) {
	for _, d := range doors {
		if !slices.Contains([]string{"run", "abp", "chat completions"}, d.name) {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			y := newTestEnv(t)
			y.Write(t, "work/.env", "ABP_COPILOT_TRANSPORT=legacy\n")
			y.sendPrompt(t, d, y.envWithModel(), "rehearsal: text All is well.")
			y.mu.Lock()
			defer y.mu.Unlock()
			if y.requests == 0 {
				t.Errorf("the model got no request:\n%s", y.output)
			}
		})
	}
}

// sendPrompt sends a prompt that leads to no tool calls.
func (y *testEnv) sendPrompt(t *testing.T, d door, env []string, prompt string) {
	t.Helper()
	s, ok := d.open(t, y, env).(*session)
	if !ok {
		t.Fatalf("%s opens no sessions", d.name)
	}
	s.say(t, prompt)
}
