package sdk

import (
	"context"
	"slices"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// subagents are the sub-agents of a session: what they are called, and which
// agent has started each. Events tell of them; hooks only have their ids.
type subagents struct {
	mu    sync.Mutex
	calls map[string]subagent // calls of the tool that starts one, by their id
	known map[string]subagent // by the sub-agent's id
	heard chan struct{}       // closed and replaced with each that is new
}

type subagent struct{ name, parent string }

// nameWithin bounds how long a hook waits for the event that names its agent.
// The runtime sends it before, but hooks and events are handled concurrently.
const nameWithin = 500 * time.Millisecond

// track learns from the session's events.
func (a *subagents) track(e copilot.SessionEvent) {
	switch d := e.Data.(type) {
	case *rpc.ToolExecutionStartData:
		if d.ToolName != "task" {
			return
		}
		args, _ := d.Arguments.(map[string]any)
		name, _ := args["name"].(string)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.calls == nil {
			a.calls = map[string]subagent{}
		}
		a.calls[d.ToolCallID] = subagent{name, str(e.AgentID)}
	case *rpc.SubagentStartedData:
		a.mu.Lock()
		defer a.mu.Unlock()
		s := a.calls[d.ToolCallID]
		delete(a.calls, d.ToolCallID)
		if s.name == "" {
			s.name = d.AgentDisplayName
		}
		if a.known == nil {
			a.known = map[string]subagent{}
		}
		a.known[str(e.AgentID)] = s
		if a.heard != nil {
			close(a.heard)
			a.heard = nil
		}
	default:
	}
}

// names are those of a sub-agent and of all that it works for, the outermost
// first. One that is not known in time is called by its id.
func (a *subagents) names(ctx context.Context, id string) (path []string) {
	ctx, cancel := context.WithTimeout(ctx, nameWithin)
	defer cancel()
	seen := map[string]bool{}
	for id != "" && !seen[id] {
		seen[id] = true
		s, ok := a.find(ctx, id)
		if !ok {
			s.name = id
		}
		path, id = append(path, s.name), s.parent
	}
	slices.Reverse(path)
	return path
}

func (a *subagents) find(ctx context.Context, id string) (subagent, bool) {
	for {
		a.mu.Lock()
		s, ok := a.known[id]
		if a.heard == nil {
			a.heard = make(chan struct{})
		}
		heard := a.heard
		a.mu.Unlock()
		if ok {
			return s, true
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return s, false
		}
	}
}
