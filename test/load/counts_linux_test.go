package load

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// counts are the resources that can leak.
type counts struct {
	conversations, running, parked, pooled int // from the program's metrics
	connections, goroutines                int
	heap                                   int // heap bytes in use
	descriptors                            int // open descriptors, from /proc
	memory                                 int // resident bytes of all processes
}

func (c counts) String() string {
	return fmt.Sprintf("%d conversations, %d turns, %d parked calls, %d pooled; %d connections, %d goroutines, %d descriptors; %.1f MB, heap %.1f MB",
		c.conversations, c.running, c.parked, c.pooled, c.connections, c.goroutines, c.descriptors, float64(c.memory)/1e6, float64(c.heap)/1e6)
}

// sessions is the number of sessions in the runtime, without those of running
// turns.
func (c counts) sessions() int { return c.conversations + c.pooled }

func (s *server) counts() counts {
	s.t.Helper()
	read := s.metrics()
	pid := s.cmd.Process.Pid
	return counts{
		conversations: read("copilot_bridge_conversations"), running: read("copilot_bridge_running_turns"),
		parked: read("copilot_bridge_parked_calls"), pooled: read("copilot_bridge_pooled_sessions"),
		connections: read("copilot_bridge_connections"), goroutines: read("go_goroutines"), heap: read("go_memstats_heap_inuse_bytes"),
		descriptors: s.descriptors(pid), memory: s.allResident(),
	}
}

// allResident is the resident memory of the program and its child processes.
func (s *server) allResident() int {
	s.t.Helper()
	sum := s.resident(s.cmd.Process.Pid)
	for pid := range s.tree() {
		sum += s.resident(pid)
	}
	return sum
}

// inFlight is the number of requests in progress, including the one that reads
// the metrics.
func (s *server) inFlight() int {
	s.t.Helper()
	return s.metrics()("copilot_bridge_requests_in_flight")
}

// metrics fetches /metrics and returns a lookup by name.
func (s *server) metrics() func(name string) int {
	s.t.Helper()
	status, page, err := s.get("/metrics")
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("metrics: %d, %v\n%s", status, err, s.errors)
	}
	values := map[string]int{}
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = int(f)
		}
	}
	return func(name string) int {
		v, ok := values[name]
		if !ok {
			s.t.Fatalf("there is no metric %s", name)
		}
		return v
	}
}

// descriptors counts the open descriptors of a process; 0 if it has ended.
func (s *server) descriptors(pid int) int {
	s.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil && !isEnded(err) {
		s.t.Fatal(err)
	}
	return len(entries)
}

// resident is the resident memory of a process; 0 if it has ended or is ending.
func (s *server) resident(pid int) int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil && !isEnded(err) {
		s.t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(status), "VmRSS:")
	if !ok {
		return 0
	}
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return kb << 10
}

func isEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }
