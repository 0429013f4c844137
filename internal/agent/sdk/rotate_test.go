//go:build linux

package sdk_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// growing is an engine whose agents' runtimes are too large after eight turns.
type growing struct {
	*engine.Engine
	t     *testing.T
	ctx   context.Context
	agent *sdk.Agent
	model *demomodel.Server
	seen  map[int]bool // pids of the runtimes so far
	gates []*agenttest.Gate
}

func startGrowing(t *testing.T) *growing {
	t.Helper()
	m := model(t)
	opts := options(t, m)
	opts.MemoryLimit = 1
	a := sdk.New(opts)
	e := engine.New(engine.Options{Agent: a})
	ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
	t.Cleanup(func() {
		cancel()
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &growing{Engine: e, t: t, ctx: ctx, agent: a, model: m, seen: map[int]bool{}}
}

func (g *growing) open(spec bridge.SessionSpec) *engine.Session {
	g.t.Helper()
	gate := agenttest.AllowAll()
	g.gates = append(g.gates, gate)
	spec.Profile, spec.Gate = bridge.ProfileAgent, gate
	if spec.WorkingDir == "" {
		spec.WorkingDir = g.t.TempDir()
	}
	s, err := g.Open(g.ctx, engine.Request{Spec: spec, Door: "test"})
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

func (g *growing) turn(s *engine.Session, directives ...string) agenttest.Outcome {
	g.t.Helper()
	o := agenttest.Collect(g.ctx, s, agenttest.Script(directives...))
	if o.Err != nil {
		g.t.Fatal(o.Err)
	}
	if pid := g.agent.ProgramPID(bridge.ProfileAgent); pid != 0 {
		g.seen[pid] = true
	}
	return o
}

// replaced runs turns until the runtime is another.
func (g *growing) replaced(s *engine.Session) {
	g.t.Helper()
	before := len(g.seen)
	for n := 0; len(g.seen) == before; n++ {
		if n > 20 {
			g.t.Fatalf("the runtime is not replaced; there were %v", g.seen)
		}
		g.turn(s, fmt.Sprintf("text turn %d", n))
	}
}

// alive waits until so many of the runtimes are left.
func (g *growing) alive(want int) {
	g.t.Helper()
	for {
		var left []int
		for pid := range g.seen {
			if syscall.Kill(pid, 0) == nil {
				left = append(left, pid)
			}
		}
		if len(left) == want {
			return
		}
		if g.ctx.Err() != nil {
			g.t.Fatalf("of the runtimes %v still run %v", g.seen, left)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// tool is the result of the one tool that a turn has called.
func (g *growing) tool(s *engine.Session, directive string) string {
	g.t.Helper()
	ended := agenttest.Find[bridge.ToolFinished](g.turn(s, directive, "next", "text ok"))
	if len(ended) != 1 || !ended[0].OK {
		g.t.Fatalf("%s: %+v", directive, ended)
	}
	return ended[0].Result
}

// The runtime of agents is replaced when it has grown. Sessions go on in the
// next one where they were: with their messages, their MCP servers and the model
// that was chosen for them.
func TestAgentsGoOnInTheNextRuntime(t *testing.T) {
	t.Parallel()
	g := startGrowing(t)
	first := g.open(bridge.SessionSpec{MCPServers: mcpServer(t)})
	idle, unused := g.open(bridge.SessionSpec{}), g.open(bridge.SessionSpec{})
	server := g.tool(first, "tool helper-pid {}")
	g.turn(idle, "text remember the parrot")
	if err := idle.SetModel(g.ctx, "rehearsal-2", ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		g.replaced(first)
		g.alive(1)
	}
	if again := g.tool(first, "tool helper-pid {}"); again == server {
		t.Errorf("the MCP server is still the one of the first runtime: %s", again)
	}
	if h, err := idle.History(g.ctx); err != nil || len(h) < 2 {
		t.Errorf("history %v, %v", h, err)
	}
	g.turn(idle, "text still here")
	r := g.model.Requests()
	if last := r[len(r)-1]; !strings.Contains(string(last.Raw), "remember the parrot") || last.Model != "rehearsal-2" {
		t.Errorf("model %s was asked %s", last.Model, last.Raw)
	}
	g.turn(unused, "text its first turn")
	for _, s := range []*engine.Session{first, idle, unused} {
		if err := s.Discard(g.ctx); err != nil {
			t.Error(err)
		}
	}
	if left, err := g.agent.List(g.ctx); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A confined session is confined in the next runtime, too.
func TestConfinedInTheNextRuntime(t *testing.T) {
	x := newSite(t)
	g := startGrowing(t)
	s := g.open(bridge.SessionSpec{WorkingDir: x.ws, Confinement: x.confinement(t)})
	for range 2 {
		got := g.tool(s, agenttest.Tool("bash", map[string]any{"command": x.script("bash"), "description": "x"}))
		if !strings.Contains(got, "tried-bash") || strings.Contains(got, canary) || strings.Contains(got, "connected") {
			t.Errorf("a command in the sandbox says %s", got)
		}
		if _, err := os.Stat(filepath.Join(x.out, "from-bash")); err == nil {
			t.Error("a command has written outside of the sandbox")
		}
		g.replaced(s)
	}
}

// Work in a runtime that is replaced is not cut off: a turn, a call that
// waits for the caller, a command in the background, a sub-agent. The runtime
// waits for them and then ends.
func TestWorkIsNotCutByTheNextRuntime(t *testing.T) {
	t.Parallel()
	g := startGrowing(t)
	shell := g.open(bridge.SessionSpec{})
	g.tool(shell, agenttest.Tool("bash", map[string]any{"command": "sleep 300; echo slept", "description": "x", "mode": "async", "shellId": "bg"}))
	parked := g.open(bridge.SessionSpec{Tools: []bridge.ToolSpec{{Name: "look", Description: "looks", Schema: map[string]any{"type": "object"}}}})
	asked, turned := make(chan bridge.ToolRequested, 1), make(chan string, 1)
	go func() {
		text := ""
		for ev, err := range parked.Send(g.ctx, agenttest.Script("tool look {}", "next", "text seen")) {
			switch e := ev.(type) {
			case bridge.ToolRequested:
				asked <- e
			case bridge.MessageDone:
				text = e.Text
			default:
			}
			if err != nil {
				text = err.Error()
			}
		}
		turned <- text
	}()
	request := <-asked
	release := make(chan struct{})
	below := g.open(bridge.SessionSpec{})
	g.model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		if last := r.Messages[len(r.Messages)-1]; last.Role == "user" && strings.HasSuffix(last.Content, "what the sub-agent does") {
			return demomodel.Reply{demomodel.WaitFor(release), demomodel.Text("below done")}, true
		}
		return nil, false
	})
	g.turn(below, agenttest.Tool("task", map[string]any{"description": "x", "name": "worker", "agent_type": "general-purpose", "mode": "background", "prompt": "what the sub-agent does"}),
		"next", "text above done")

	other := g.open(bridge.SessionSpec{})
	g.replaced(other)
	g.alive(2)
	if err := parked.Resolve(g.ctx, request.RequestID, bridge.ToolResult{Text: "a view"}); err != nil {
		t.Error(err)
	}
	if text := <-turned; text != "seen" {
		t.Errorf("the turn that was parked ended with %q", text)
	}
	g.turn(other, "text on")
	g.alive(2)
	if list := g.tool(shell, "tool list_bash {}"); !strings.Contains(list, "sleep 300") {
		t.Errorf("in the background runs %s", list)
	}
	g.tool(shell, `tool stop_bash {"shellId":"bg"}`)
	g.turn(other, "text on")
	g.alive(2) // the sub-agent
	close(release)
	g.alive(1)
	g.turn(shell, "text resumed")
	g.turn(below, "text resumed")
}

// However many turns there are, and at a time, few runtimes are alive.
func TestRuntimesOfAgentsAreFew(t *testing.T) {
	t.Parallel()
	g := startGrowing(t)
	ends := make(chan error, 3)
	for i := range 3 {
		go func() {
			for n := range 30 {
				s, err := g.Open(g.ctx, engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()}, Door: "test"})
				if err == nil {
					err = agenttest.Collect(g.ctx, s, agenttest.Say(fmt.Sprint("turn ", i, n))).Err
				}
				if err == nil {
					err = s.Discard(g.ctx)
				}
				if err != nil {
					ends <- err
					return
				}
			}
			ends <- nil
		}()
	}
	for left := 3; left > 0; {
		select {
		case err := <-ends:
			if left--; err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Millisecond):
			if pid := g.agent.ProgramPID(bridge.ProfileAgent); pid != 0 {
				g.seen[pid] = true
			}
		}
	}
	if len(g.seen) < 4 {
		t.Errorf("only %d runtimes in 90 turns", len(g.seen))
	}
	g.turn(g.open(bridge.SessionSpec{}), "text last")
	g.alive(1)
}

// Nothing holds a session that has ended, nor the guard that it had, though the
// SDK's client lists it as long as the runtime lives.
func TestEndedSessionsAreForgotten(t *testing.T) {
	g := startGrowing(t)
	forgotten := make(chan struct{})
	func() {
		s := g.open(bridge.SessionSpec{Person: &formFiller{}})
		g.tool(s, agenttest.Tool("bash", map[string]any{"command": "echo x", "description": "x"}))
		runtime.AddCleanup(g.gates[len(g.gates)-1], func(done chan struct{}) { close(done) }, forgotten)
		g.gates = nil
		if err := s.Close(g.ctx); err != nil {
			t.Fatal(err)
		}
	}()
	for {
		runtime.GC()
		select {
		case <-forgotten:
			return
		case <-g.ctx.Done():
			t.Fatal("the guard of a session that has ended is still held")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
