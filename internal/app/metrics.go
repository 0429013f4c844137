package app

import (
	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/engine/chat"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/metrics"
)

// metrics are what a server counts besides its requests. Labels are doors,
// models that have answered, and fixed words.
func (s *Server) metrics() *metrics.Registry {
	const ns = httpserver.Namespace
	r, b := &metrics.Registry{}, s.bridge
	r.Read(ns+"tokens_total", "counter", "Tokens by door, model and direction.", []string{"door", "model", "direction"}, func(add func(float64, ...string)) {
		for _, row := range b.Engine.Usage() {
			add(float64(row.Usage.InputTokens), row.Door, row.Model, "in")
			add(float64(row.Usage.OutputTokens), row.Door, row.Model, "out")
		}
	})
	for _, c := range []struct {
		name, help string
		of         func(bridge.Usage) float64
	}{
		{"cost_total", "Cost by door and model, in the agent's own unit.", func(u bridge.Usage) float64 { return u.Cost }},
		{"premium_requests_total", "Premium requests by door and model, as GitHub counts them.", func(u bridge.Usage) float64 { return u.Premium }},
		{"ai_credits_total", "AI credits by door and model, as GitHub bills them.", func(u bridge.Usage) float64 { return u.Credits }},
	} {
		r.Read(ns+c.name, "counter", c.help, []string{"door", "model"}, func(add func(float64, ...string)) {
			for _, row := range b.Engine.Usage() {
				add(c.of(row.Usage), row.Door, row.Model)
			}
		})
	}
	for _, g := range []struct {
		name, help string
		of         func(chat.Stats) int
	}{
		{"conversations", "Conversations that are held for their next request.", func(s chat.Stats) int { return s.Conversations }},
		{"parked_calls", "Calls of clients' tools that wait for their result.", func(s chat.Stats) int { return s.ParkedCalls }},
		{"pooled_sessions", "Empty sessions for the next caller.", func(s chat.Stats) int { return s.Pooled }},
		{"running_turns", "Turns of chats that are under way.", func(s chat.Stats) int { return s.Running }},
	} {
		r.Func(ns+g.name, g.help, func() float64 { return float64(g.of(s.chat.Stats())) })
	}
	byProfile := []string{"profile"}
	r.Read(ns+"open_turns", "gauge", "Turns that have been let in and have not ended, by profile.", byProfile, func(add func(float64, ...string)) {
		for _, p := range []bridge.Profile{bridge.ProfileChat, bridge.ProfileAgent} {
			open, _ := b.Engine.Load(p)
			add(float64(open), string(p))
		}
	})
	r.Read(ns+"queued_turns", "gauge", "Turns that wait to be let in, by profile.", byProfile, func(add func(float64, ...string)) {
		for _, p := range []bridge.Profile{bridge.ProfileChat, bridge.ProfileAgent} {
			_, waiting := b.Engine.Load(p)
			add(float64(waiting), string(p))
		}
	})
	counts := &b.guard.counts
	r.Read(ns+"tool_calls_total", "counter", "Tool calls by the guard's verdict: allow, consent (a person allowed it) or deny.", []string{"verdict"}, func(add func(float64, ...string)) {
		add(float64(counts.Allowed.Load()), "allow")
		add(float64(counts.Consented.Load()), "consent")
		add(float64(counts.Denied.Load()), "deny")
	})
	r.Func(ns+"approvals_waiting", "Questions that wait for a person's answer.", func() float64 { return float64(counts.Waiting.Load()) })
	r.Read(ns+"runtime_restarts_total", "counter", "Starts of Copilot's runtime in place of one that had ended or had grown too large.", nil, func(add func(float64, ...string)) {
		restarts, _ := b.runtimes()
		add(float64(restarts))
	})
	r.Func(ns+"runtime_memory_bytes", "Memory of Copilot's runtimes that are in use.", func() float64 {
		_, memory := b.runtimes()
		return float64(memory)
	})
	r.Read(ns+"trace_spans_dropped_total", "counter", "Spans that no collector has taken.", nil, func(add func(float64, ...string)) { add(float64(b.tracer.Dropped())) })
	return r
}

// runtimeStates are those of Copilot's runtimes; none where Copilot is reached in
// another way.
func (b *Bridge) runtimeStates() []sdk.RuntimeState {
	if a := b.sdk.Load(); a != nil {
		return a.Runtimes()
	}
	return nil
}

// runtimes says how often a runtime was replaced, and what memory they have; 0
// where Copilot is reached in another way.
func (b *Bridge) runtimes() (restarts, memory int64) {
	for _, r := range b.runtimeStates() {
		restarts += max(0, r.Starts-1)
		memory += r.Memory
	}
	return restarts, memory
}
