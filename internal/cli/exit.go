package cli

import (
	"errors"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// The exit codes: the one table of them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2 // a wrong flag, argument or configuration value
	exitUnavailable = 3 // Copilot, or the provider in its place, cannot answer
	exitDenied      = 4 // by policy or by a person
	exitPartly      = 5 // some of it was done, some failed, was skipped or denied
	exitInterrupted = 130
)

const exitHelp = `Exit codes: 0 done, 1 failed, 2 usage, 3 Copilot unavailable, 4 denied by policy,
5 partly done, 130 interrupted.`

// exitError is an error whose exit code does not follow from its kind, or of
// which something was printed already. A nil err leaves nothing to print.
type exitError struct {
	code int
	err  error
	told bool // standard output has it as JSON
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitCode maps an error to the code that the process ends with.
func exitCode(err error) int {
	var fixed *exitError
	if errors.As(err, &fixed) {
		return fixed.code
	}
	switch bridge.CodeOf(err) {
	case "":
		return exitDone
	case bridge.CodeInvalid:
		return exitUsage
	case bridge.CodeUnavailable, bridge.CodeUnauthenticated, bridge.CodeCrashed, bridge.CodeRateLimited:
		return exitUnavailable
	case bridge.CodeProvider:
		// Without a status it was not reached; a provider that refuses the
		// request as such is another matter.
		if s := bridge.AsError(err).Status; s == 0 || s >= http.StatusInternalServerError {
			return exitUnavailable
		}
		return exitFailed
	case bridge.CodeDenied, bridge.CodeConsent:
		return exitDenied
	case bridge.CodeCanceled:
		return exitInterrupted
	case bridge.CodeNotFound, bridge.CodeBusy, bridge.CodeTimeout, bridge.CodeBudget, bridge.CodeConflict,
		bridge.CodeUnsupported, bridge.CodeInternal:
		return exitFailed
	}
	return exitFailed
}
