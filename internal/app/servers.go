package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// permitServers judges the MCP servers that a caller brings along, before the
// runtime starts or reaches any of them. The user's policy and the workspace's
// decide; rules of the caller's own have no say.
func (b *Bridge) permitServers(ctx context.Context, g Guarding, servers map[string]bridge.MCPServer) error {
	if len(servers) == 0 {
		return nil
	}
	g.Layers, g.Source, g.Servers, g.Reason = nil, "", nil, nil
	gate, err := b.Gate(g)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		call, err := guard.ServerCall(name, servers[name], g.Workspace)
		if err != nil {
			return err
		}
		if d := gate.Before(ctx, call); d.Verdict != bridge.Allow {
			rule := "shell"
			if call.Name == guard.ToolServerConnect {
				rule = "network"
			}
			return &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the MCP server %q may not be used: %s", name, d.Reason),
				Remedy: fmt.Sprintf("allow it under %s in %s, or leave the server out", rule, b.opts.Config.Path(policy.UserFile))}
		}
	}
	return nil
}
