package vscode

import (
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// health is what the last real outcome says of Copilot. VS Code has a method
// that should know, and always says yes.
type health struct {
	changed func()

	mu      sync.Mutex
	state   editor.Copilot
	reason  string
	worked  bool // it has answered before, so the user has agreed
	doubted bool // something has changed since
}

func newHealth(changed func()) *health {
	if changed == nil {
		changed = func() {}
	}
	return &health{changed: changed, state: editor.CopilotUnknown, reason: "nothing was asked of it yet"}
}

func (h *health) get() (editor.Copilot, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.reason
}

// change changes the state and tells of it.
func (h *health) change(f func()) {
	h.mu.Lock()
	state, reason := h.state, h.reason
	f()
	changed := h.state != state || h.reason != reason
	h.mu.Unlock()
	if changed {
		h.changed()
	}
}

// answered is called when a model has answered.
func (h *health) answered() {
	h.change(func() { h.worked, h.state, h.reason, h.doubted = true, editor.CopilotOK, "", false })
}

// failed is called when a request has failed. A fault of the caller, or a passing
// one, does not change Copilot's state.
func (h *health) failed(err error) {
	e := bridge.AsError(err)
	state := editor.CopilotUnavailable
	switch e.Code {
	case bridge.CodeConsent, bridge.CodeDenied:
		state = editor.CopilotConsent
	case bridge.CodeUnavailable, bridge.CodeTimeout, bridge.CodeQuota, bridge.CodeUnauthenticated:
	default:
		return
	}
	h.change(func() {
		h.worked = h.worked && state != editor.CopilotConsent
		h.state, h.reason, h.doubted = state, e.Message, false
	})
}

// doubt says that models or consent have changed: the state holds only until the
// next look.
func (h *health) doubt() {
	h.mu.Lock()
	h.doubted = true
	h.mu.Unlock()
}

// listed is called with the number of models that the editor lists. Without
// any nothing can be answered. With some, what stood in the way may be over: a
// Copilot that has answered before is taken to answer again.
func (h *health) listed(n int) {
	h.change(func() {
		doubted := h.doubted && h.state != editor.CopilotOK
		h.doubted = false
		switch {
		case n == 0:
			h.state, h.reason = editor.CopilotUnavailable, whyNoModels
		case !doubted && h.reason != whyNoModels:
		case h.worked:
			h.state, h.reason = editor.CopilotOK, ""
		default:
			h.state, h.reason = editor.CopilotUnknown, "its models are listed, and none was asked since"
		}
	})
}
