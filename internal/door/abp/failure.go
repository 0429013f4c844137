package abp

import (
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/abp/contract"
)

// codeOf maps the domain's codes to ABP's.
func codeOf(err error) contract.ErrorCode {
	switch bridge.CodeOf(err) {
	case bridge.CodeInvalid, bridge.CodeConflict, bridge.CodeUnsupported:
		return contract.CodeValidation
	case bridge.CodeNotFound:
		return contract.CodeModelNotFound
	case bridge.CodeUnauthenticated:
		return contract.CodeBackendAuthFailed
	case bridge.CodeDenied, bridge.CodeConsent:
		return contract.CodePermissionDenied
	case bridge.CodeUnavailable, bridge.CodeBusy, bridge.CodeProvider:
		return contract.CodeBackendUnavailable
	case bridge.CodeCrashed:
		return contract.CodeBackendCrashed
	case bridge.CodeTimeout:
		return contract.CodeBackendTimeout
	case bridge.CodeRateLimited:
		return contract.CodeBackendRateLimited
	case bridge.CodeCanceled, bridge.CodeBudget, bridge.CodeInternal:
	}
	return contract.CodeInternal
}

// words is an error as a host shows it.
func words(err error) string {
	e := bridge.AsError(err)
	text := err.Error()
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	return text
}
