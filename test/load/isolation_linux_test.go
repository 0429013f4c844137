package load

import (
	"strconv"
	"testing"
)

// No word of one caller is ever found in a request to the model, or in an
// answer, of another.
func TestIsolation(t *testing.T) {
	m := newModel(t)
	// Few conversations are held, so that sessions pass from hand to hand.
	s := serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_MAX_CONCURRENT=16", "COPILOT_BRIDGE_QUEUE_LIMIT="+strconv.Itoa(isolationCallers),
		"COPILOT_MAX_RETRIES=0", "COPILOT_BRIDGE_TOOL_TTL=3s", "COPILOT_BRIDGE_CONVERSATIONS=8")
	w := &crowd{t: t, url: s.url, size: isolationCallers, budget: isolationBudget, shape: func(c *caller) {
		switch c.rng.IntN(8) {
		case 0: // a shape of its own
			c.asks.system = "You serve " + c.nonce + "."
		case 1:
			c.asks.tools = []tool{{"find", "finds " + c.nonce}}
		case 2, 3: // one of a few
			c.asks.system = []string{"Be brief.", "Be kind."}[c.rng.IntN(2)]
		default: // all the same
		}
	}}
	w.run(isolationRequests * scale)
	if asked := m.requests(); asked < w.right {
		t.Errorf("the model was asked %d times, for %d answers", asked, w.right)
	}
	s.settled()
}
