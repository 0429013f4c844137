// Package guard with a verdict that allows everything. TestForced builds the
// program with this file instead of internal/guard/verdict.go. No other program
// contains it.
package guard

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

const forced = "allowed: this program allows everything"

// decide allows the call. It grants no exceptions from the sandbox: those would
// be intended, and not a failure of the sandbox.
func (*Guard) decide(context.Context, policy.Action, bridge.PermissionRequest, bool) (d bridge.Decision, asked bool) {
	return allow(forced), false
}

func (*Guard) strayed(bridge.ToolCall) string { return "" }
