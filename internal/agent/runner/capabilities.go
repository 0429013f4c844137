package runner

import "github.com/copilot-bridge/copilot-bridge/internal/bridge"

// Capabilities are what can be promised of any runner.
func (a *Agent) Capabilities() map[bridge.Capability]bridge.Support {
	return map[bridge.Capability]bridge.Support{bridge.CapStreaming: {Level: bridge.SupportNative},
		bridge.CapHooksPre: {Level: bridge.SupportRestricted, Reason: "a runner tells of its tool calls and does not ask"}}
}
