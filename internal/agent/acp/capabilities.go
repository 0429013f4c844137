package acp

import "github.com/copilot-bridge/copilot-bridge/internal/bridge"

// Capabilities are what can be had over ACP. Which tools there are only the
// agent knows; those named here are Copilot's.
func (a *Agent) Capabilities() map[bridge.Capability]bridge.Support {
	native := bridge.Support{Level: bridge.SupportNative}
	out := map[bridge.Capability]bridge.Support{bridge.CapStreaming: native, bridge.CapMCPClient: native, bridge.CapSessionResume: native,
		bridge.CapHooksPre:  {Level: bridge.SupportRestricted, Reason: "over ACP only calls that the agent asks about can be stopped"},
		bridge.CapHooksPost: {Level: bridge.SupportRestricted, Reason: "over ACP the agent has a tool's result before the bridge"}}
	if a.opts.Copilot {
		for _, c := range []bridge.Capability{bridge.CapToolRead, bridge.CapToolWrite, bridge.CapToolEdit, bridge.CapToolBash, bridge.CapToolGlob, bridge.CapToolGrep} {
			out[c] = native
		}
	}
	return out
}
