package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// permitServers judges the MCP servers that a caller brings along, before the
// runtime starts or reaches any of them. The user's policy and the workspace's
// decide; rules of the caller's own have no say, and silence is no consent,
// whatever it means for the caller's other work.
func (b *Bridge) permitServers(ctx context.Context, g Guarding, servers map[string]bridge.MCPServer) error {
	if len(servers) == 0 {
		return nil
	}
	var denied policy.Outcome
	g.Layers, g.Source, g.Servers = nil, "", nil
	g.Reason = func(_ string, o policy.Outcome) string { denied = o; return "" }
	g.Defaults.Verdicts = maps.Clone(g.Defaults.Verdicts)
	g.Defaults.Verdicts[policy.KindShell], g.Defaults.Verdicts[policy.KindNetwork] = policy.Ask, policy.Ask
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
			return &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the MCP server %q may not be used: %s", name, d.Reason),
				Remedy: serverRemedy(call, denied, b.opts.Config.Path(policy.UserFile))}
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
		return fmt.Sprintf("add %q to %s in %s, %s", call.Name, denied.Rule.Key, denied.Source.Name, without)
	case denied.Rule.Key == "readOnly" || strings.HasSuffix(denied.Rule.Key, ".deny"):
		return fmt.Sprintf("change that rule in %s, %s", denied.Source.Name, without)
	case call.Name == guard.ToolServerConnect:
		return fmt.Sprintf("add %q to network.allow in %s, %s", denied.Subject, file, without)
	}
	return fmt.Sprintf("add its command to shell.allow, and hosts that it names to network.allow, in %s, %s", file, without)
}
