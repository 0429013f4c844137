package acp

import (
	"encoding/json"
	"errors"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// wireCode maps the bridge's codes to those of the protocol.
func wireCode(c bridge.Code) int {
	switch c {
	case bridge.CodeInvalid, bridge.CodeUnsupported:
		return acpwire.CodeInvalidParams
	case bridge.CodeNotFound:
		return acpwire.CodeResourceNotFound
	case bridge.CodeUnauthenticated:
		return acpwire.CodeAuthRequired
	case bridge.CodeConflict:
		return acpwire.CodeInvalidRequest
	case bridge.CodeCanceled:
		return acpwire.CodeCancelled
	case bridge.CodeDenied, bridge.CodeConsent, bridge.CodeUnavailable, bridge.CodeCrashed, bridge.CodeBusy, bridge.CodeTimeout, bridge.CodeRateLimited,
		bridge.CodeProvider, bridge.CodeBudget, bridge.CodeInternal:
		return acpwire.CodeInternal
	}
	return acpwire.CodeInternal
}

// wireError is an error as the client gets it: what was wrong and what to do
// in the message, which is all that most clients show, and both again with the
// bridge's own code in the data.
func wireError(err error) error {
	var sent *acpwire.Error
	if err == nil || errors.As(err, &sent) {
		return err
	}
	e := bridge.AsError(err)
	text := err.Error()
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	out := acpwire.Errorf(wireCode(e.Code), "%s", text)
	data, encodeErr := json.Marshal(struct {
		Code    bridge.Code `json:"code"`
		Details string      `json:"details"`
		Remedy  string      `json:"remedy,omitempty"`
		Retry   int64       `json:"retryAfterMs,omitempty"`
	}{e.Code, err.Error(), e.Remedy, e.RetryAfter.Milliseconds()})
	if encodeErr == nil {
		out.Data = data
	}
	return out
}
