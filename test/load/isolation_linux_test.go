package load

import (
	"strconv"
	"testing"
)

// A request to the model or an answer never contains the nonce of another
// caller.
func TestIsolation(t *testing.T) {
	m := newModel(t)
	// Few conversations are kept, so that sessions are reused by different
	// callers.
	s := serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_MAX_CONCURRENT=16", "COPILOT_BRIDGE_QUEUE_LIMIT="+strconv.Itoa(isolationCallers),
		"COPILOT_MAX_RETRIES=0", "COPILOT_BRIDGE_TOOL_TTL=3s", "COPILOT_BRIDGE_CONVERSATIONS=8")
	w := &crowd{t: t, url: s.url, size: isolationCallers, budget: isolationBudget, shape: func(c *caller) {
		switch c.rng.IntN(8) {
		case 0: // a unique configuration
			c.asks.system = "You serve " + c.nonce + "."
		case 1:
			c.asks.tools = []tool{{"find", "finds " + c.nonce}}
		case 2, 3: // one of a few configurations
			c.asks.system = []string{"Be brief.", "Be kind."}[c.rng.IntN(2)]
		default: // the same configuration
		}
	}}
	w.run(share(isolationRequests))
	if asked := m.requests(); asked < w.right {
		t.Errorf("the model was asked %d times, for %d answers", asked, w.right)
	}
	s.waitIdle()
}
