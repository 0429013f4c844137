package guard

import (
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/runtimecall"
)

// runtimeServer is the server that direct calls of the runtime count as tools
// of, in rules such as "runtime/session.name.set".
const runtimeServer = "runtime"

// directCall makes of a direct call of the runtime what a policy can judge, or
// says why it is refused.
func (g *Guard) directCall(call bridge.ToolCall, method string) (judged bridge.ToolCall, a policy.Action, refusal string) {
	rule := runtimecall.Of(method)
	params, _ := call.Args.(map[string]any)
	named := policy.Action{Tool: method, Server: runtimeServer, Args: call.Args, Kind: policy.KindOther, ReadOnly: true}
	switch rule.Kind {
	case runtimecall.Read, runtimecall.Change:
		return call, named, ""
	case runtimecall.Ask:
		named.Kind, named.ReadOnly = policy.KindMCP, false
		g.addPaths(&named, call)
		judged = call
		judged.Name = method // questions name the server besides
		return judged, named, ""
	case runtimecall.Command:
		command, ok := rule.CommandOf(params)
		if _, elsewhere := params["cwd"]; elsewhere {
			return call, a, method + " runs in the session's directory; leave cwd out, and begin the command with cd"
		}
		if !ok {
			return call, a, "it has no command"
		}
		// A denial of the method holds besides the rules for commands.
		if out := g.policy().Evaluate(named); out.Verdict == policy.Deny {
			return call, a, out.Reason
		}
		judged = bridge.ToolCall{ID: call.ID, Name: "bash", Args: map[string]any{"command": command, "description": "call " + method}}
		return judged, g.action(judged), ""
	case runtimecall.Refuse:
	}
	return call, a, method + " is not called directly: " + rule.Note
}

// directMethod is the runtime's method that a call is of, if it is a direct one.
func directMethod(call bridge.ToolCall) (method string, direct bool) {
	return strings.CutPrefix(call.Name, bridge.RuntimeCall)
}
