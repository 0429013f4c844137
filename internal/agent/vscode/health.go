package vscode

import (
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
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

// set changes the state. mu is held; the caller tells of it when it is not.
func (h *health) set(s editor.Copilot, reason string) (changed bool) {
	changed = h.state != s || h.reason != reason
	h.state, h.reason, h.doubted = s, reason, false
	return changed
}

func (h *health) tell(changed bool) {
	if changed {
		h.changed()
	}
}

// answered is called when a model has answered.
func (h *health) answered() {
	h.mu.Lock()
	h.worked = true
	changed := h.set(editor.CopilotOK, "")
	h.mu.Unlock()
	h.tell(changed)
}

// failed is called when a request has failed. What is the caller's fault, or a
// matter of the moment, says nothing about Copilot.
func (h *health) failed(err error) {
	e := bridge.AsError(err)
	state := editor.CopilotUnavailable
	switch e.Code {
	case bridge.CodeConsent, bridge.CodeDenied:
		state = editor.CopilotConsent
	case bridge.CodeUnavailable, bridge.CodeTimeout, bridge.CodeBudget, bridge.CodeUnauthenticated:
	default:
		return
	}
	h.mu.Lock()
	if state == editor.CopilotConsent {
		h.worked = false
	}
	changed := h.set(state, e.Message)
	h.mu.Unlock()
	h.tell(changed)
}

// doubt says that models or consent have changed: what is known holds until
// the next look only.
func (h *health) doubt() {
	h.mu.Lock()
	h.doubted = true
	h.mu.Unlock()
}

// listed is called with the number of models that the editor lists. Without
// any nothing can be answered. With some, what stood in the way may be over: a
// Copilot that has answered before is taken to answer again.
func (h *health) listed(n int) {
	h.mu.Lock()
	changed := false
	switch {
	case n == 0:
		changed = h.set(editor.CopilotUnavailable, whyNoModels)
	case h.state == editor.CopilotUnavailable && h.reason == whyNoModels, h.doubted && h.state != editor.CopilotOK:
		if h.worked {
			changed = h.set(editor.CopilotOK, "")
		} else {
			changed = h.set(editor.CopilotUnknown, "its models are listed, and none was asked since")
		}
	}
	h.doubted = false
	h.mu.Unlock()
	h.tell(changed)
}
