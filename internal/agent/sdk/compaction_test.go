//go:build unix

package sdk_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// A conversation that fills its context beyond the threshold is compacted, and
// goes on; one that is not to be compacted is sent whole.
func TestLongConversationsAreCompacted(t *testing.T) {
	t.Parallel()
	long := bridge.Prompt{Text: strings.Repeat("many words in a row ", 3000) + "\nrehearsal: text ok"} // some 15,000 tokens of 128,000
	for name, infinite := range map[string]bridge.InfiniteSession{
		"from the threshold on": {Enabled: true, BackgroundThreshold: 0.02, BufferThreshold: 0.5},
		"not before it":         {Enabled: true, BackgroundThreshold: 0.8, BufferThreshold: 0.95},
		"not where it is off":   {Enabled: false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, a, m := start(t, nil)
			s := openSession(t, ctx, a, bridge.SessionSpec{Infinite: &infinite})
			var told []string
			turn := func(p bridge.Prompt) (phrases int) {
				t.Helper()
				o := agenttest.Collect(ctx, s, p)
				if o.Err != nil || o.Text() != "ok" {
					t.Fatalf("%q, %v", o.Text(), o.Err)
				}
				for _, n := range agenttest.Find[bridge.Notice](o) {
					told = append(told, n.Text)
				}
				all := m.Requests()
				return strings.Count(string(all[len(all)-1].Raw), "many words in a row")
			}
			turn(long)
			turn(long)
			want := infinite.Enabled && infinite.BackgroundThreshold < 0.1
			phrases := turn(agenttest.Say("ok"))
			for want && phrases == 2*3000 { // until the background has done it, or the test's time is over
				phrases = turn(agenttest.Say("ok"))
			}
			if begun := slices.Contains(told, "the conversation is being compacted"); begun != want || (phrases < 2*3000) != want {
				t.Errorf("told %q, and the last request has %d phrases of %d", told, phrases, 2*3000)
			}
		})
	}
}
