package sdk

import (
	"encoding/json"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// raw passes an event on as the runtime words it, except for pieces of text.
func raw(e copilot.SessionEvent, push func(bridge.Event)) {
	switch e.Data.(type) {
	case *rpc.AssistantMessageDeltaData, *rpc.AssistantReasoningDeltaData, *rpc.AssistantStreamingDeltaData,
		*rpc.ToolExecutionPartialResultData, *rpc.ToolExecutionProgressData:
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		return // the translation still comes
	}
	// As plain values, so that whatever hides secrets sees every string.
	var data any
	if json.Unmarshal(b, &data) == nil {
		push(bridge.Other{Name: bridge.RawPrefix + string(e.Type()), Data: data})
	}
}

// Capabilities says what the runtime can do, as tried with the pinned version.
func (a *Agent) Capabilities() map[bridge.Capability]bridge.Support {
	native := bridge.Support{Level: bridge.SupportNative}
	out := map[bridge.Capability]bridge.Support{}
	for _, c := range []bridge.Capability{bridge.CapStreaming, bridge.CapToolRead, bridge.CapToolWrite, bridge.CapToolEdit, bridge.CapToolBash,
		bridge.CapToolGlob, bridge.CapToolGrep, bridge.CapToolAskUser, bridge.CapStructuredOutput,
		bridge.CapHooksPre, bridge.CapHooksPost, bridge.CapSessionResume, bridge.CapMCPClient} {
		out[c] = native
	}
	out[bridge.CapToolWebFetch] = native
	if a.offline() {
		out[bridge.CapToolWebFetch] = bridge.Support{Level: bridge.SupportRestricted,
			Reason: "the runtime offers it with GitHub's models only, not with a provider of your own"}
	}
	return out
}

// offline: the runtime is kept from reaching GitHub at all.
func (a *Agent) offline() bool {
	return a.opts.Provider != nil && a.opts.Token == "" && !a.opts.UseLogin
}
