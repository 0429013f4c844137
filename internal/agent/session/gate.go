package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// GateContext is what gates and persons run under: the turn, or between turns
// the session.
func (b *Base) GateContext() context.Context {
	if t := b.Running(); t != nil {
		return t.Ctx
	}
	return b.ctx
}

// WithWaiting returns a context in which the questions of a gate are visible in
// the turn.
func (b *Base) WithWaiting(ctx context.Context) context.Context {
	return bridge.WithWaiting(ctx, b.waiting)
}

func (b *Base) waiting(r bridge.PermissionRequest) func(bridge.Decision) {
	b.mu.Lock()
	b.asked++
	if r.ID == "" {
		r.ID = fmt.Sprintf("gate-%d", b.asked)
	}
	var push func(bridge.Event)
	if b.turn != nil {
		push = b.turn.push
	}
	b.mu.Unlock()
	if push == nil {
		return func(bridge.Decision) {}
	}
	push(bridge.PermissionAsked{Request: r})
	return func(d bridge.Decision) {
		push(bridge.PermissionDecided{RequestID: r.ID, CallID: r.CallID, Decision: d})
	}
}

// Decide asks the session's gate. It fails closed: without a gate, after a
// panic and when ctx has ended the decision is no.
func (b *Base) Decide(ctx context.Context, ask func(context.Context, bridge.Gate) bridge.Decision) (d bridge.Decision) {
	defer func() {
		if r := recover(); r != nil {
			d = bridge.Decision{Reason: fmt.Sprintf("the guard failed: %v", r)}
		} else if ctx.Err() != nil {
			d = bridge.Decision{Reason: "the turn has ended"}
		}
	}()
	if b.Spec.Gate == nil {
		return bridge.Decision{Reason: "there is no guard to allow it"}
	}
	return ask(ctx, b.Spec.Gate)
}

// After shows a tool's result to the gate and returns the result to use instead.
// It fails closed.
func (b *Base) After(ctx context.Context, call bridge.ToolCall, result any) (out any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the guard failed: %v", r)
		}
	}()
	out, err = b.Spec.Gate.After(ctx, call, result)
	if err == nil && out == nil {
		err = errNothing
	}
	return out, err
}

var errNothing = errors.New("the guard returned nothing")

// textField is where the SDK's runtime, and so a gate, has the text of a result.
const textField = "textResultForLlm"

// AfterText is After for a result that is a text.
func (b *Base) AfterText(ctx context.Context, call bridge.ToolCall, text string) (string, error) {
	out, err := b.After(ctx, call, map[string]any{textField: text})
	if err != nil {
		return "", err
	}
	m, _ := out.(map[string]any)
	clean, ok := m[textField].(string)
	if !ok {
		return "", errNothing
	}
	return clean, nil
}
