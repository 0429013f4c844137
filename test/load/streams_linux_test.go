package load

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Many clients at a time, of which some hang up, some never come back and
// some meet errors, leave nothing behind. More turns run at once than by
// default; more still would only wait for each other inside the runtime.
//
// What is compared is what there was after a few callers, one at a time, with
// what there is when the crowd has gone and the program has come to rest: the
// memory is that of all its processes.
func TestManyStreams(t *testing.T) {
	m := newModel(t)
	s := serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_MAX_CONCURRENT=32", "COPILOT_BRIDGE_QUEUE_LIMIT="+strconv.Itoa(streams),
		"COPILOT_MAX_RETRIES=0", "COPILOT_BRIDGE_TOOL_TTL=3s", "COPILOT_BRIDGE_CONVERSATIONS=16")
	few := &crowd{t: t, url: s.url, size: 1, budget: streamBudget, shape: func(*caller) {}}
	few.run(firstRequests)
	before := s.settled()
	t.Logf("before: %s; runtime: %s", before, s.runtimeHolds())
	w := &crowd{t: t, url: s.url, size: streams, budget: streamBudget, shape: func(*caller) {}}
	w.run(streamRequests * scale)
	t.Logf("at the end of it: %s; runtime: %s", s.settled(), s.runtimeHolds())
	// What is resident counts. The garbage of the last requests is part of it
	// until it has been collected and given back.
	over := time.Now()
	deadline := over.Add(patience)
	for {
		after := s.counts()
		more := max(0, after.sessions()-before.sessions()) // up to the bounds, that is no leak
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

// settled waits until nothing goes on: no request, no turn, and no call whose
// client may still come back.
func (s *server) settled() (c counts) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		c = s.counts()
		if c.running == 0 && c.parked == 0 && c.connections <= 1 {
			return c
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("it does not come to rest: %s", c)
		}
		pause()
	}
}

// runtimeHolds is what the runtime has of the machine.
func (s *server) runtimeHolds() string {
	var each []string
	for _, pid := range s.runtimes() {
		each = append(each, fmt.Sprintf("%d descriptors, %.0f MB", s.descriptors(pid), float64(s.resident(pid))/1e6))
	}
	return strings.Join(each, "; ")
}
