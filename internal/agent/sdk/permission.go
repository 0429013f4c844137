package sdk

import (
	"context"
	"maps"
	"sync/atomic"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// permission turns the runtime's typed union into one shape. Kinds that this
// version does not know keep their name, and a gate denies what it does not
// understand. No policy speaks of extensions and factories, which bring code
// of their own: they stay of an unknown kind, and so are denied, but the
// record says what the question was.
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
// one; an unknown one counts as a denial.
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
// there is none, when it fails, and when the caller has left.
func (s *session) permit(r copilot.PermissionRequest, _ copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
	req := permission(r)
	req.Confined = s.confined()
	d := s.Decide(s.GateContext(), func(ctx context.Context, g bridge.Gate) bridge.Decision { return g.Permit(ctx, req) })
	if d.Verdict != bridge.Allow {
		s.endGrant(func(*call) bool { return true }) // nothing else can be asked about meanwhile
		return &rpc.PermissionDecisionReject{Feedback: &d.Reason}, nil
	}
	return &rpc.PermissionDecisionApproveOnce{}, nil
}

// reach is how the SDK reaches a session with questions. Its client keeps what
// it was given for as long as the runtime lives, also of sessions that have
// ended: with a session itself it would keep the guard, 80 kB each.
type reach struct{ session atomic.Pointer[session] }

// hooks connect the gate to everything that a tool call passes through. When
// the session has ended nothing passes.
func (r *reach) hooks() *copilot.SessionHooks {
	const over = "the session has ended"
	return &copilot.SessionHooks{
		OnPreToolUse: func(in copilot.PreToolUseHookInput, _ copilot.HookInvocation) (*copilot.PreToolUseHookOutput, error) {
			if s := r.session.Load(); s != nil {
				return s.beforeTool(in), nil
			}
			return &copilot.PreToolUseHookOutput{PermissionDecision: "deny", PermissionDecisionReason: over}, nil
		},
		OnPostToolUse: func(in copilot.PostToolUseHookInput, _ copilot.HookInvocation) (*copilot.PostToolUseHookOutput, error) {
			if s := r.session.Load(); s != nil {
				return &copilot.PostToolUseHookOutput{ModifiedResult: s.afterTool(in)}, nil
			}
			return &copilot.PostToolUseHookOutput{ModifiedResult: withheld(over)}, nil
		},
		OnPostToolUseFailure: func(in copilot.PostToolUseFailureHookInput, _ copilot.HookInvocation) (*copilot.PostToolUseFailureHookOutput, error) {
			if s := r.session.Load(); s != nil {
				s.endGrant(func(c *call) bool { return c.agent == in.SessionID && c.name == in.ToolName })
				s.Spec.Gate.Failed(s.GateContext(), bridge.ToolCall{Name: in.ToolName, Args: in.ToolArgs, Confined: s.confined()}, in.Error)
			}
			return nil, nil
		},
		OnErrorOccurred: func(in copilot.ErrorOccurredHookInput, _ copilot.HookInvocation) (*copilot.ErrorOccurredHookOutput, error) {
			if s := r.session.Load(); s != nil {
				if how := s.Spec.Gate.Recover(s.GateContext(), in.Error, in.Recoverable); how != bridge.RecoverDefault {
					return &copilot.ErrorOccurredHookOutput{ErrorHandling: string(how)}, nil
				}
			}
			return nil, nil
		},
	}
}

func (r *reach) ask(q copilot.UserInputRequest, _ copilot.UserInputInvocation) (copilot.UserInputResponse, error) {
	s := r.session.Load()
	if s == nil {
		return copilot.UserInputResponse{}, context.Canceled
	}
	a, err := s.Spec.Person.Ask(s.GateContext(), bridge.Question{Text: q.Question, Choices: q.Choices,
		Freeform: q.AllowFreeform == nil || *q.AllowFreeform})
	if bridge.CodeOf(err) == bridge.CodeDenied {
		// Of an error the model hears only that there was one.
		a, err = bridge.Answer{Text: "(no answer: " + bridge.AsError(err).Message + ")", Freeform: true}, nil
	}
	return copilot.UserInputResponse{Answer: a.Text, WasFreeform: a.Freeform}, err
}

func (s *session) beforeTool(in copilot.PreToolUseHookInput) *copilot.PreToolUseHookOutput {
	gate := s.Spec.Gate
	args, attached := attachedShell(in.ToolName, in.ToolArgs)
	args, moved := rerouted(in.ToolName, args)
	changed := attached || moved
	confined := s.confines(in.SessionID)
	var agents []string
	if in.SessionID != s.ID() {
		agents = s.agents.names(s.GateContext(), in.SessionID)
	}
	d := s.Decide(s.WithWaiting(s.GateContext()), func(ctx context.Context, gate bridge.Gate) bridge.Decision {
		return gate.Before(ctx, bridge.ToolCall{Name: in.ToolName, Args: args, Confined: confined, Agents: agents,
			NoGrant: in.SessionID != s.ID() || inBackground(args)})
	})
	if d.Args == nil && changed {
		d.Args = args
	}
	if d.Verdict == bridge.Allow {
		if d.Args != nil {
			args = d.Args
		}
		if no := s.admitCall(s.GateContext(), in.SessionID, bridge.ToolCall{Name: in.ToolName, Args: args, Confined: confined}, in.ToolArgs, d.Confinement, d.Grant); no != "" {
			d = bridge.Decision{Reason: no}
			gate.Failed(s.GateContext(), bridge.ToolCall{Name: in.ToolName, Args: args, Confined: true}, no)
		}
	}
	if d.Verdict != bridge.Allow {
		return &copilot.PreToolUseHookOutput{PermissionDecision: "deny", PermissionDecisionReason: d.Reason}
	}
	if d.Args != nil {
		return &copilot.PreToolUseHookOutput{ModifiedArgs: d.Args}
	}
	return nil
}

func (s *session) afterTool(in copilot.PostToolUseHookInput) any {
	s.endGrant(func(c *call) bool { return c.agent == in.SessionID && c.name == in.ToolName })
	if s.confined() {
		in.ToolResult = failed(in.ToolName, in.ToolResult)
	}
	result, err := s.After(s.GateContext(), bridge.ToolCall{Name: in.ToolName, Args: in.ToolArgs, Confined: s.confined()}, in.ToolResult)
	if err != nil {
		return withheld(err.Error()) // the model must not see what could not be checked
	}
	return result
}

// withheld is what the model gets instead of a result.
func withheld(why string) any {
	return map[string]any{"textResultForLlm": "[withheld: " + why + "]", "resultType": "failure"}
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
