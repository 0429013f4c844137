package engine

import (
	"context"
	"encoding/json"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Call calls a method of the runtime by its name, under the session's gate: it is
// judged and recorded before, and secrets are hidden in the result. params is a
// JSON object, or nothing.
func (s *Session) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	gate := s.spec().Gate
	if gate == nil {
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "a session without a guard takes no direct calls of the runtime", Remedy: "open a session of an agent"}
	}
	call := bridge.ToolCall{Name: bridge.RuntimeCall + method}
	if len(params) > 0 {
		var args map[string]any
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the parameters of " + method + " are not a JSON object", Cause: err}
		}
		call.Args = args
	}
	inner, err := s.live(ctx)
	if err != nil {
		return nil, err
	}
	c, ok := inner.(Caller)
	if !ok {
		return nil, s.engine.unsupported("be called directly")
	}
	switch d := gate.Before(ctx, call); {
	case d.Failure != nil:
		return nil, d.Failure
	case d.Verdict != bridge.Allow:
		return nil, &bridge.Error{Code: bridge.CodeDenied, Message: d.Reason}
	}
	ctx, cancel := context.WithTimeout(ctx, s.engine.opts.Limits.TotalTimeout)
	defer cancel()
	raw, err := c.Call(ctx, method, params)
	if err != nil {
		gate.Failed(ctx, call, err.Error())
		return nil, err
	}
	var result any
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, err
	}
	if result, err = gate.After(ctx, call, result); err != nil {
		return nil, err
	}
	return json.Marshal(result)
}
