package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

func TestFleet(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	worker := func(id string, online bool, h *fleet.Hello) fleet.WorkerStatus {
		return fleet.WorkerStatus{MemberRecord: fleet.MemberRecord{ID: id, Labels: []string{"gpu=yes"}}, Online: online, Seen: now.Add(-2 * time.Minute), Hello: h, Lag: 1500 * time.Microsecond}
	}
	draining := worker("d-1", true, &fleet.Hello{Capacity: 1, Draining: true})
	never := worker("e-1", false, nil)
	never.Seen = time.Time{}
	got := Fleet(fleet.Status{Fleet: "f1", URLs: []string{"tls://127.0.0.1:4222"}, Version: "1.2", Since: now.Add(-time.Hour), Workers: []fleet.WorkerStatus{
		worker("a-1", true, &fleet.Hello{Capacity: 4, Version: "1.2", Answers: "github", Labels: map[string]string{"zone": "b", "gpu": "no", "fast": ""}, Running: make([]fleet.Running, 2)}),
		worker("b-1", false, &fleet.Hello{Capacity: 4}),
		worker("c-1", true, &fleet.Hello{Capacity: 1, NotReady: "nobody is logged in\x1b[2J"}), draining, never,
	}, Queues: []fleet.QueueStatus{{Queue: "any"}, {Queue: "q-1", Labels: []string{"gpu=yes"}, Waiting: 3, Claimed: 2}},
		Coordinators: []fleet.MemberRecord{{ID: "hub-1", Name: "hub"}}, Runs: []fleet.RunStatus{{Run: "r1", Owner: fleet.Owner{Host: "desk", Task: "port the parser"}}, {Run: "r2", Alive: true}, {Run: "r3", Owner: fleet.Owner{Ended: true}}}}, now)
	for _, want := range []string{"fleet f1 at tls://127.0.0.1:4222, version 1.2, since 1h", "a-1", "working", "2 of 4", "gpu=yes fast zone=b", "github", "1.5 ms",
		"away for 2m", "not ready: nobody is logged in", "draining", "never seen", "3        2", "r1", "interrupted", "desk", "port the parser", "running", "ended", "COORDINATOR", "hub-1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "any worker") || strings.Contains(got, "\x1b") {
		t.Error(got)
	}
	many := []fleet.RunStatus{{Run: "r00", Alive: true}}
	for i := range 20 {
		many = append(many, fleet.RunStatus{Run: fmt.Sprintf("r%02d", i+1)})
	}
	if got := Fleet(fleet.Status{Runs: many}, now); !strings.Contains(got, "r20") || !strings.Contains(got, "r00") || strings.Contains(got, "r05") || !strings.Contains(got, "and 10 more: copilot-bridge orchestrate --list --fleet") {
		t.Error(got)
	}
	if got := Fleet(fleet.Status{}, now); !strings.Contains(got, "fleet invite") {
		t.Error(got)
	}
}
