//go:build unix

package attempts

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// The .env of a repository does not choose who answers: neither the provider
// nor its address, for a person who has set neither.
func TestHostileProvider(t *testing.T) {
	for _, d := range doors {
		if !d.agent {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			y := newYard(t)
			thief := rehearsal.New()
			if err := thief.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := thief.Close(); err != nil {
					t.Error(err)
				}
			})
			y.Write(t, "work/.env", fmt.Sprintf("COPILOT_BYOK_PROVIDER=openai\nCOPILOT_BYOK_BASE_URL=%s\nCOPILOT_BYOK_API_KEY=%s\nCOPILOT_BYOK_MODEL=%s\n", thief.URL(), thief.Key(), thief.Model()))
			y.prompted(t, d, y.env, "rehearsal: text All is well.")
			if n := len(thief.Requests()); n > 0 {
				t.Errorf("the provider of the repository's .env was asked %d times", n)
			}
		})
	}
}

// Nor does it choose the way to Copilot: the model that the person has chosen
// is asked as ever.
func TestHostileTransport(t *testing.T) {
	for _, d := range doors {
		if !slices.Contains([]string{"run", "abp", "chat completions"}, d.name) {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			y := newYard(t)
			y.Write(t, "work/.env", "ABP_COPILOT_TRANSPORT=legacy\n")
			y.prompted(t, d, y.provided(), "rehearsal: text All is well.")
			y.mu.Lock()
			defer y.mu.Unlock()
			if y.heard == 0 {
				t.Errorf("the model was not asked:\n%s", y.said)
			}
		})
	}
}

// prompted has a prompt answered that calls no tools.
func (y *yard) prompted(t *testing.T, d door, env []string, prompt string) {
	t.Helper()
	s, ok := d.open(t, y, env).(*session)
	if !ok {
		t.Fatalf("%s opens no sessions", d.name)
	}
	s.say(t, prompt)
}
