package wire

import (
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// statusClientGone is what access logs show for a client that gave up. Nobody
// reads the answer.
const statusClientGone = 499

// Status is the HTTP status for an error; Retry-After is left to the caller.
func Status(e *bridge.Error) int {
	switch e.Code {
	case bridge.CodeInvalid:
		switch e.Status {
		case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
			return e.Status
		}
		return http.StatusBadRequest
	case bridge.CodeUnsupported:
		return http.StatusBadRequest
	case bridge.CodeUnauthenticated:
		return http.StatusUnauthorized
	case bridge.CodeDenied, bridge.CodeConsent:
		return http.StatusForbidden
	case bridge.CodeNotFound:
		return http.StatusNotFound
	case bridge.CodeConflict:
		return http.StatusConflict
	case bridge.CodeBusy, bridge.CodeRateLimited, bridge.CodeBudget:
		return http.StatusTooManyRequests
	case bridge.CodeCanceled:
		return statusClientGone
	case bridge.CodeUnavailable, bridge.CodeCrashed:
		return http.StatusServiceUnavailable
	case bridge.CodeTimeout:
		return http.StatusGatewayTimeout
	case bridge.CodeProvider:
		if 400 <= e.Status && e.Status <= 599 {
			return e.Status
		}
		return http.StatusBadGateway
	case bridge.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}
