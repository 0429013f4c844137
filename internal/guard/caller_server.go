package guard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// PermitServers judges the MCP servers that a caller brings along. denied is
// what the guard's Reason function heard last, and userFile the user's policy.
func (g *Guard) PermitServers(ctx context.Context, root string, servers map[string]bridge.MCPServer, denied *policy.Outcome, userFile string) error {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		call, err := ServerCall(name, servers[name], root)
		if err != nil {
			return err
		}
		if d := g.Before(ctx, call); d.Verdict != bridge.Allow {
			return d.Denied(fmt.Sprintf("the MCP server %q may not be used: %s", name, d.Reason), serverRemedy(call, *denied, userFile))
		}
	}
	return nil
}

// serverRemedy says what would let a server be used that was denied. file is
// the user's policy.
func serverRemedy(call bridge.ToolCall, denied policy.Outcome, file string) string {
	const without = "or leave the server out"
	switch {
	case denied.Outside:
		return "let it name only files of the workspace, besides its program and script, " + without
	case denied.Stage == policy.StageAllowList:
		return fmt.Sprintf("add %q to %s in %s, %s", call.Name, denied.Rule.Key, denied.Rule.Source.Name, without)
	case denied.Rule.Key == "readOnly" || strings.HasSuffix(denied.Rule.Key, ".deny"):
		return fmt.Sprintf("change that rule in %s, %s", denied.Rule.Source.Name, without)
	case call.Name == ToolServerConnect:
		return fmt.Sprintf("add %q to network.allow in %s, %s", denied.Subject, file, without)
	}
	return fmt.Sprintf("add its command to shell.allow, and hosts that it names to network.allow, in %s, %s", file, without)
}
