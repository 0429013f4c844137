package load

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Many concurrent clients leave nothing behind, although some hang up, some
// never return and some get errors. The server runs more turns at once than by
// default; even more would only wait for each other inside the runtime.
//
// The test compares the counts after a few sequential callers with the counts
// after the load, when the program is idle. The memory is that of all its
// processes.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	s := serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_MAX_CONCURRENT=32", "COPILOT_BRIDGE_QUEUE_LIMIT="+strconv.Itoa(streams),
		"COPILOT_MAX_RETRIES=0", "COPILOT_BRIDGE_TOOL_TTL=3s", "COPILOT_BRIDGE_CONVERSATIONS=16")
	few := &crowd{t: t, url: s.url, size: 1, budget: streamBudget, shape: func(*caller) {}}
	few.run(firstRequests)
	before := s.waitIdle()
	t.Logf("before: %s; runtime: %s", before, s.runtimeHolds())
	w := &crowd{t: t, url: s.url, size: streams, budget: streamBudget, shape: func(*caller) {}}
	w.run(share(streamRequests))
	t.Logf("at the end of it: %s; runtime: %s", s.waitIdle(), s.runtimeHolds())
	// The limit is on resident memory. It includes garbage of the last requests
	// until that is collected and returned to the system.
	over := time.Now()
	deadline := over.Add(patience)
	for {
		after := s.counts()
		more := max(0, after.sessions()-before.sessions()) // kept sessions up to the limits are no leak
		if after.goroutines <= before.goroutines+more+5 && after.descriptors <= before.descriptors+3 &&
			(raced || float64(after.memory) <= memoryGrowth*float64(before.memory)) {
			t.Logf("%s later: %s; runtime: %s", time.Since(over).Round(time.Second), after, s.runtimeHolds())
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there were %s, and now there are %s", before, after)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// waitIdle waits until the server is idle: no request, no turn, and no tool call
// whose client may still return.
func (s *server) waitIdle() (c counts) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		c = s.counts()
		if c.running == 0 && c.parked == 0 && c.connections <= 1 {
			return c
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the server does not become idle: %s", c)
		}
		pause()
	}
}

// runtimeHolds describes the resources of the runtime.
func (s *server) runtimeHolds() string {
	var each []string
	for _, pid := range s.runtimes() {
		each = append(each, fmt.Sprintf("%d descriptors, %.0f MB", s.descriptors(pid), float64(s.resident(pid))/1e6))
	}
	return strings.Join(each, "; ")
}
