package app

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/dashboard"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/metrics"
)

// healthWithin bounds the question to the runtime.
const healthWithin = 5 * time.Second

func (r *records) Health(ctx context.Context) dashboard.Health {
	ctx, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	b := r.bridge
	h := dashboard.Health{Version: b.opts.Version, PID: os.Getpid(), Memory: int64(metrics.Resident()), Goroutines: runtime.NumGoroutine(), Uptime: time.Since(r.began).Seconds(),
		Runtimes: []dashboard.HealthRuntime{}, Agents: []dashboard.HealthAgent{}, Doors: []dashboard.HealthDoor{}, Processes: []dashboard.HealthProcess{},
		Sandbox: b.sandboxHealth()}
	if s := r.server; s != nil {
		now := s.health(ctx)
		h.OK = now.OK && now.Copilot != httpserver.CopilotUnavailable
		h.Copilot = dashboard.HealthCopilot{State: now.Copilot, Reason: now.Reason}
		h.Copilot.Runtime, _ = now.Details["runtime_reports"].(string)
		h.Answers = b.Answering()
		h.Doors = s.doors()
		for _, p := range []bridge.Profile{bridge.ProfileChat, bridge.ProfileAgent} {
			open, waiting := b.Engine.Load(p)
			h.OpenTurns, h.Waiting = h.OpenTurns+open, h.Waiting+waiting
		}
	}
	for _, s := range b.runtimeStates() {
		h.Restarts += max(0, s.Starts-1)
		if s.PID > 0 {
			h.Runtimes = append(h.Runtimes, dashboard.HealthRuntime{Profile: string(s.Profile), PID: s.PID, Memory: s.Memory, Starts: s.Starts, Sessions: s.Sessions})
		}
	}
	slices.SortStableFunc(h.Runtimes, func(a, b dashboard.HealthRuntime) int { return cmp.Or(cmp.Compare(a.Profile, b.Profile), a.PID-b.PID) })
	if b.agents != nil {
		for _, a := range b.agents.Tried() {
			agent := dashboard.HealthAgent{Name: a.Name, InUse: a.InUse}
			if a.Failed != nil {
				agent.Failed = a.Failed.Error()
			}
			h.Agents = append(h.Agents, agent)
		}
	}
	processes, err := live.Processes(b.opts.Config.Home)
	if err != nil {
		b.opts.Logger.Debug("dashboard.processes_unknown", "error", err)
	}
	for _, p := range processes {
		h.Processes = append(h.Processes, dashboard.HealthProcess{ID: p.ID, PID: p.PID, Command: p.Command, Workspace: p.Workspace, Version: p.Version, URL: p.URL, Since: p.Since})
	}
	return h
}

// sandboxHealth says whether programs are confined, and why not.
func (b *Bridge) sandboxHealth() dashboard.HealthSandbox {
	h := dashboard.HealthSandbox{Mode: b.opts.Config.Sandbox}
	switch {
	case b.wall != nil:
		h.On, h.With = true, b.wall.String()
	case b.noWall != nil:
		h.Reason, h.Remedy = b.noWall.Error(), bridge.AsError(b.noWall).Remedy
	default:
		h.Reason = "switched off"
	}
	return h
}

// doors are the APIs that the server has, and their addresses.
func (s *Server) doors() []dashboard.HealthDoor {
	at := s.URL()
	out := []dashboard.HealthDoor{{Name: "dashboard", Address: at + "/"}, {Name: "OpenAI Chat Completions", Address: at + "/v1/chat/completions"},
		{Name: "OpenAI Responses", Address: at + "/v1/responses"}, {Name: "Anthropic Messages", Address: at + "/v1/messages"}, {Name: "tool bus", Address: s.RPC()}}
	if s.tools != nil {
		out = append(out, dashboard.HealthDoor{Name: "MCP", Address: at + "/mcp"})
	}
	return out
}
