package bridge

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// Code says what kind of thing went wrong. Each door maps codes to its own
// protocol in one table; nothing else in the program inspects error texts.
type Code string

// The codes. A new one needs a row in every door's table; the exhaustive
// linter finds the tables that lack it.
const (
	CodeInvalid         Code = "invalid"          // the caller's input is wrong
	CodeNotFound        Code = "not_found"        // no such session, model, file
	CodeUnauthenticated Code = "unauthenticated"  // not logged in, or the key was refused
	CodeDenied          Code = "denied"           // the policy or a person said no
	CodeConsent         Code = "consent_required" // a person has to agree first, where only they can
	CodeUnavailable     Code = "unavailable"      // Copilot cannot be reached or started
	CodeCrashed         Code = "runtime_exited"   // the runtime died under a turn
	CodeBusy            Code = "busy"             // a bound was reached; try again later
	CodeTimeout         Code = "timeout"          // idle or total time ran out
	CodeCanceled        Code = "canceled"         // the caller gave up
	CodeRateLimited     Code = "rate_limited"     // the model's provider asks to wait
	CodeProvider        Code = "provider"         // the model's provider failed; see Status
	CodeBudget          Code = "budget_exhausted" // a turn, token or cost limit was reached
	CodeQuota           Code = "quota_exhausted"  // what the account's plan holds is used up
	CodeConflict        Code = "conflict"         // the state is not what the caller assumed
	CodeUnsupported     Code = "unsupported"      // this agent cannot do that
	CodeInternal        Code = "internal"         // a fault of ours
)

// Error is the one error type that crosses package borders. Message is for
// people and never holds a secret; Remedy, if set, is what to do about it.
type Error struct {
	Code       Code
	Message    string
	Remedy     string
	Status     int           // HTTP status of a provider's answer, or 0
	RetryAfter time.Duration // how long the other side asked us to wait, or 0
	Cause      error
	Detail     *ErrorDetail // what the runtime tells besides; nil for most errors
	// Elsewhere: the fleet or another machine failed, not this machine's Copilot.
	// It does not travel.
	Elsewhere bool
}

// ErrorDetail is what Copilot's runtime tells of an error, in its own words.
type ErrorDetail struct {
	Type             string `json:"type,omitempty"` // authentication, quota, rate_limit, …
	Code             string `json:"code,omitempty"` // the provider's, such as user_weekly_rate_limited
	ProviderCallID   string `json:"provider_call_id,omitempty"`
	ServiceRequestID string `json:"service_request_id,omitempty"`
	URL              string `json:"url,omitempty"` // for a person to open
	// Remediation is what a person has to do, such as sign_in.
	Remediation string `json:"remediation,omitempty"`
	// AutoSwitch: the runtime would go on with another model.
	AutoSwitch bool `json:"auto_switch,omitempty"`
	// Problem is set where the way to GitHub's models is at fault.
	Problem Problem `json:"problem,omitempty"`
	// Resets is the day on which a quota that is used up begins anew, and
	// FreeModels are those that cost nothing of it.
	Resets     string   `json:"resets,omitempty"`
	FreeModels []string `json:"free_models,omitempty"`
}

// DetailAccount is the type of an error that was met when the account was looked
// up, before any turn. The agent's status tells whether it still holds.
const DetailAccount = "account"

// Problem is why GitHub's models cannot answer. The names are stable, so that
// programs can compare them.
type Problem string

// The problems.
const (
	ProblemLogin           Problem = "login_refused"       // the token or login is wrong, expired or revoked
	ProblemAccount         Problem = "account_refused"     // GitHub does not let the token look its account up
	ProblemNoCopilot       Problem = "no_copilot"          // the account has no Copilot
	ProblemPolicy          Problem = "copilot_policy"      // a policy forbids Copilot here altogether
	ProblemModelForbidden  Problem = "model_forbidden"     // a policy forbids the model
	ProblemModelNotEnabled Problem = "model_not_enabled"   // somebody has to agree to the model's terms
	ProblemModelUnknown    Problem = "model_not_supported" // the account is not offered the model
	ProblemQuota           Problem = "quota_used_up"
	ProblemRateLimit       Problem = "rate_limited"
	ProblemUnreachable     Problem = "github_unreachable"
	ProblemCertificate     Problem = "github_certificate" // something between here and GitHub reads along
	ProblemClock           Problem = "clock"              // this machine's is wrong
	ProblemFault           Problem = "github_fault"       // GitHub fails by itself
)

// Problem is the problem on the way to GitHub's models, "" for any other error.
func (e *Error) Problem() Problem {
	if e == nil || e.Detail == nil {
		return ""
	}
	return e.Detail.Problem
}

// Hidden is d with every text as hide returns it; nil stays nil.
func (d *ErrorDetail) Hidden(hide func(string) string) *ErrorDetail {
	if d == nil {
		return nil
	}
	out := *d
	for _, text := range []*string{&out.Type, &out.Code, &out.ProviderCallID, &out.ServiceRequestID, &out.URL, &out.Remediation} {
		*text = hide(*text)
	}
	return &out
}

// Error returns the message and, where one is known, the cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	if e.Message == "" {
		return e.Cause.Error()
	}
	return e.Message + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf returns the code of the first Error in err's chain; context errors
// have codes of their own, and anything else is internal. CodeOf(nil) is "".
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout
	case isFull(err):
		return CodeUnavailable
	default:
		return CodeInternal
	}
}

// isFull reports whether a disk or a quota is behind err.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// DiskFull is the error for a full disk, that of a directory if it is known.
func DiskFull(dir string, cause error) *Error {
	if dir != "" {
		dir = " of " + dir
	}
	return &Error{Code: CodeUnavailable, Message: "the disk" + dir + " is full", Remedy: "Free some space on it, then try again.", Cause: cause}
}

// AsError returns err as an *Error, wrapping it if it is not one. Context
// errors get their codes, and a full disk is told as such. AsError(nil) is nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if isFull(err) {
		dir := ""
		var p *fs.PathError
		if errors.As(err, &p) {
			dir = filepath.Dir(p.Path)
		}
		return DiskFull(dir, err)
	}
	return &Error{Code: CodeOf(err), Cause: err}
}
