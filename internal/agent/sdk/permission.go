package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// permission turns the runtime's typed union into one shape. Kinds that this
// version does not know keep their name, and a gate denies what it does not
// understand. No policy speaks of extensions and factories, which bring code
// of their own: they stay of an unknown kind, and so are denied, but the
// record says what was asked.
func permission(r rpc.PermissionRequest) bridge.PermissionRequest {
	if r == nil {
		return bridge.PermissionRequest{Kind: bridge.PermissionUnknown}
	}
	out := bridge.PermissionRequest{Kind: bridge.PermissionUnknown, Native: string(r.Kind())}
	switch d := r.(type) {
	case *rpc.PermissionRequestShell:
		out.Kind, out.CallID, out.Tool, out.Intention = bridge.PermissionShell, str(d.ToolCallID), "bash", d.Intention
		out.Command, out.Paths = d.FullCommandText, d.PossiblePaths
		out.ReadOnly = len(d.Commands) > 0
		for _, c := range d.Commands {
			out.ReadOnly = out.ReadOnly && c.ReadOnly
		}
		for _, s := range d.CommandSegments {
			out.Segments = append(out.Segments, s.FullCommandText)
		}
		for _, u := range d.PossibleURLs {
			out.URLs = append(out.URLs, u.URL)
		}
	case *rpc.PermissionRequestWrite:
		out.Kind, out.CallID, out.Intention = bridge.PermissionWrite, str(d.ToolCallID), d.Intention
		out.Paths, out.Diff = paths(d.FileName, d.ResolvedPath), d.Diff
	case *rpc.PermissionRequestRead:
		out.Kind, out.CallID, out.Intention = bridge.PermissionRead, str(d.ToolCallID), d.Intention
		out.Paths, out.ReadOnly = paths(d.Path, d.ResolvedPath), true
	case *rpc.PermissionRequestMCP:
		out.Kind, out.CallID, out.Tool, out.Server = bridge.PermissionMCP, str(d.ToolCallID), d.ToolName, d.ServerName
		out.Args, out.ReadOnly = d.Args, d.ReadOnly
	case *rpc.PermissionRequestURL:
		out.Kind, out.CallID, out.Intention, out.URLs = bridge.PermissionURL, str(d.ToolCallID), d.Intention, []string{d.URL}
	case *rpc.PermissionRequestMemory:
		out.Kind, out.CallID, out.Intention = bridge.PermissionMemory, str(d.ToolCallID), d.Fact
	case *rpc.PermissionRequestCustomTool:
		out.Kind, out.CallID, out.Tool, out.Args = bridge.PermissionCustom, str(d.ToolCallID), d.ToolName, d.Args
	case *rpc.PermissionRequestHook:
		out.Kind, out.CallID, out.Tool, out.Args = bridge.PermissionHook, str(d.ToolCallID), d.ToolName, d.ToolArgs
		out.Intention = str(d.HookMessage)
	case *rpc.PermissionRequestExtensionManagement:
		out.CallID, out.Tool, out.Intention = str(d.ToolCallID), str(d.ExtensionName), d.Operation+" an extension"
	case *rpc.PermissionRequestExtensionPermissionAccess:
		out.CallID, out.Tool, out.Args, out.Intention = str(d.ToolCallID), d.ExtensionName, list(d.Capabilities), "give an extension abilities"
	case *rpc.PermissionRequestExtensionEnvAccess:
		out.CallID, out.Tool, out.Args, out.Intention = str(d.ToolCallID), d.ExtensionName, list(d.EnvironmentVariables), "give an extension secrets of the environment"
	case *rpc.PermissionRequestFactory:
		out.CallID, out.Tool, out.Intention = str(d.ToolCallID), d.Name, string(d.Operation)+" a factory: "+d.Description
	}
	return out
}

// list is how a gate expects arguments: as encoding/json decodes them.
func list(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

// paths names a file as it was asked for and as it was resolved: both have to
// be allowed.
func paths(asked string, resolved *string) []string {
	if r := str(resolved); r != "" && r != asked {
		return []string{asked, r}
	}
	return []string{asked}
}

// decided reads the outcome of a permission request. Only a plain approval is
// one; what is unknown counts as a denial.
func decided(r rpc.PermissionResult) bridge.Decision {
	if r == nil {
		return bridge.Decision{}
	}
	kind := string(r.Kind())
	switch r.Kind() {
	case rpc.PermissionResultKindApproved, rpc.PermissionResultKindApprovedForSession, rpc.PermissionResultKindApprovedForLocation:
		return bridge.Decision{Verdict: bridge.Allow, Reason: kind}
	default:
		return bridge.Decision{Verdict: bridge.Deny, Reason: kind}
	}
}

// permit answers a permission request by the session's gate, and denies when
// there is none, when it fails, and when nobody waits any more.
func (s *session) permit(r copilot.PermissionRequest, _ copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
	d := guarded(s.gateContext(), func(ctx context.Context) bridge.Decision {
		if s.spec.Gate == nil {
			return bridge.Decision{Reason: "nobody is there to allow it"}
		}
		req := permission(r)
		req.Confined = s.confined()
		return s.spec.Gate.Permit(ctx, req)
	})
	if d.Verdict != bridge.Allow {
		s.narrow(func(*call) bool { return true }) // nothing else can be asked about meanwhile
		return &rpc.PermissionDecisionReject{Feedback: &d.Reason}, nil
	}
	return &rpc.PermissionDecisionApproveOnce{}, nil
}

// waiting makes a question that a gate asks before the runtime does visible
// in the turn, so that its silence is understood.
func (s *session) waiting(r bridge.PermissionRequest) func(bridge.Decision) {
	s.mu.Lock()
	t := s.turn
	s.asked++
	if r.ID == "" {
		r.ID = fmt.Sprintf("waiting-%d", s.asked)
	}
	s.mu.Unlock()
	if t == nil {
		return func(bridge.Decision) {}
	}
	t.push(bridge.PermissionAsked{Request: r})
	return func(d bridge.Decision) {
		t.push(bridge.PermissionDecided{RequestID: r.ID, CallID: r.CallID, Decision: d})
	}
}

// guarded runs a gate's decision so that it fails closed.
func guarded(ctx context.Context, f func(context.Context) bridge.Decision) (d bridge.Decision) {
	defer func() {
		if r := recover(); r != nil {
			d = bridge.Decision{Reason: fmt.Sprintf("the guard failed: %v", r)}
		} else if ctx.Err() != nil {
			d = bridge.Decision{Reason: "the turn has ended"}
		}
	}()
	return f(ctx)
}

// hooks connect the gate to everything that a tool call passes through.
func (s *session) hooks() *copilot.SessionHooks {
	gate := s.spec.Gate
	if gate == nil {
		return nil
	}
	return &copilot.SessionHooks{
		OnPreToolUse: func(in copilot.PreToolUseHookInput, _ copilot.HookInvocation) (*copilot.PreToolUseHookOutput, error) {
			args, attached := attachedShell(in.ToolName, in.ToolArgs)
			args, moved := rerouted(in.ToolName, args)
			changed := attached || moved
			d := guarded(bridge.WithWaiting(s.gateContext(), s.waiting), func(ctx context.Context) bridge.Decision {
				return gate.Before(ctx, bridge.ToolCall{Name: in.ToolName, Args: args, Confined: s.confined(),
					NoGrant: in.SessionID != s.ID() || inBackground(args)})
			})
			if d.Args == nil && changed {
				d.Args = args
			}
			if d.Verdict == bridge.Allow {
				if d.Args != nil {
					args = d.Args
				}
				if no := s.admit(s.gateContext(), in.SessionID, bridge.ToolCall{Name: in.ToolName, Args: args}, in.ToolArgs, d.Grant); no != "" {
					d = bridge.Decision{Reason: no}
					gate.Failed(s.gateContext(), bridge.ToolCall{Name: in.ToolName, Args: args, Confined: true}, no)
				}
			}
			if d.Verdict != bridge.Allow {
				return &copilot.PreToolUseHookOutput{PermissionDecision: "deny", PermissionDecisionReason: d.Reason}, nil
			}
			if d.Args != nil {
				return &copilot.PreToolUseHookOutput{ModifiedArgs: d.Args}, nil
			}
			return nil, nil
		},
		OnPostToolUse: func(in copilot.PostToolUseHookInput, _ copilot.HookInvocation) (*copilot.PostToolUseHookOutput, error) {
			s.narrow(func(c *call) bool { return c.agent == in.SessionID && c.name == in.ToolName })
			if s.confined() {
				in.ToolResult = failed(in.ToolName, in.ToolResult)
			}
			result, err := after(s.gateContext(), gate, bridge.ToolCall{Name: in.ToolName, Args: in.ToolArgs, Confined: s.confined()}, in.ToolResult)
			if err != nil {
				// The model must not see what could not be checked.
				result = map[string]any{"textResultForLlm": "[withheld: " + err.Error() + "]", "resultType": "failure"}
			}
			return &copilot.PostToolUseHookOutput{ModifiedResult: result}, nil
		},
		OnPostToolUseFailure: func(in copilot.PostToolUseFailureHookInput, _ copilot.HookInvocation) (*copilot.PostToolUseFailureHookOutput, error) {
			s.narrow(func(c *call) bool { return c.agent == in.SessionID && c.name == in.ToolName })
			gate.Failed(s.gateContext(), bridge.ToolCall{Name: in.ToolName, Args: in.ToolArgs, Confined: s.confined()}, in.Error)
			return nil, nil
		},
		OnErrorOccurred: func(in copilot.ErrorOccurredHookInput, _ copilot.HookInvocation) (*copilot.ErrorOccurredHookOutput, error) {
			if r := gate.Recover(s.gateContext(), in.Error, in.Recoverable); r != bridge.RecoverDefault {
				return &copilot.ErrorOccurredHookOutput{ErrorHandling: string(r)}, nil
			}
			return nil, nil
		},
	}
}

// attachedShell takes the wish to be detached out of a shell call: the runtime
// ends such a shell with nothing, neither an abort nor the session nor its own
// shutdown. Without it the shell lives as long as its session.
func attachedShell(name string, args any) (any, bool) {
	m, ok := args.(map[string]any)
	if !ok || m["detach"] == nil || m["detach"] == false || name != "bash" && name != "powershell" {
		return args, false
	}
	m = maps.Clone(m)
	delete(m, "detach")
	return m, true
}

func after(ctx context.Context, gate bridge.Gate, call bridge.ToolCall, result any) (out any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the guard failed: %v", r)
		}
	}()
	out, err = gate.After(ctx, call, result)
	if err == nil && out == nil {
		err = errors.New("the guard returned nothing")
	}
	return out, err
}
