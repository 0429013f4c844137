package editor

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// The codes of JSON-RPC errors. What happened is said by the kind.
const (
	codeNoMethod = -32601
	codeOther    = -32000
)

// Kind says what went wrong on the extension's side.
type Kind string

// The kinds.
const (
	KindConsent     Kind = "consent_required" // the user has not agreed yet
	KindDenied      Kind = "denied"           // the user said no
	KindBlocked     Kind = "blocked"          // VS Code throttles the extension
	KindRateLimited Kind = "rate_limited"
	KindQuota       Kind = "quota_exceeded"
	KindNotFound    Kind = "not_found"
	KindTooLong     Kind = "too_long"
	KindUnsupported Kind = "unsupported"
	KindNoProvider  Kind = "no_provider" // no extension of VS Code can do it
	KindConflict    Kind = "conflict"
	KindUnavailable Kind = "unavailable"
	KindTimeout     Kind = "timeout"
	KindCanceled    Kind = "canceled"
	KindInternal    Kind = "internal"
)

// Fault is an error as it travels.
type Fault struct {
	Code    int        `json:"code"`
	Message string     `json:"message"`
	Data    *FaultData `json:"data,omitempty"`
}

// FaultData tells more of an error: VS Code's own name and code of it.
type FaultData struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
	Code text   `json:"code,omitempty"`
}

// text is a text, or what an extension says in a text's place: VS Code's error
// codes are texts, those of Node may be numbers.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = string(b)
	}
	*t = text(s)
	return nil
}

func (f *Fault) Error() string { return f.Message }

const agree = "run “Bridge: Enable” in VS Code's command palette and agree to what it asks"

// asError is the one table from kinds to the domain's codes.
func (f *Fault) asError() *bridge.Error {
	kind := KindInternal
	if f.Data != nil {
		kind = f.Data.Kind
	}
	e := &bridge.Error{Message: f.Message}
	if e.Message == "" {
		e.Message = "the editor gave no reason"
	}
	switch kind {
	case KindConsent:
		e.Code, e.Remedy = bridge.CodeConsent, agree
	case KindDenied:
		e.Code, e.Remedy = bridge.CodeDenied, agree
	case KindBlocked, KindRateLimited:
		e.Code, e.Remedy = bridge.CodeRateLimited, "wait a moment, then try again"
	case KindQuota:
		e.Code, e.Remedy = bridge.CodeBudget, "see what is left of your Copilot plan"
	case KindNotFound:
		e.Code, e.Remedy = bridge.CodeNotFound, "choose another model; GET /v1/models lists what there is"
	case KindTooLong:
		e.Code, e.Status, e.Remedy = bridge.CodeProvider, http.StatusBadRequest, "send less of the conversation, or choose a model with a larger context"
	case KindUnsupported, KindNoProvider:
		e.Code = bridge.CodeUnsupported
	case KindConflict:
		e.Code = bridge.CodeConflict
	case KindUnavailable:
		e.Code, e.Remedy = bridge.CodeUnavailable, "see that you are signed in to Copilot in VS Code"
	case KindTimeout:
		e.Code = bridge.CodeTimeout
	case KindCanceled:
		e.Code = bridge.CodeCanceled
	case KindInternal:
		e.Code = bridge.CodeProvider
	default: // of a newer extension
		e.Code = bridge.CodeProvider
	}
	return e
}

// faultOf is an error of ours as the extension gets it.
func faultOf(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	e := bridge.AsError(err)
	kind := KindInternal
	switch e.Code {
	case bridge.CodeConsent:
		kind = KindConsent
	case bridge.CodeDenied, bridge.CodeUnauthenticated:
		kind = KindDenied
	case bridge.CodeRateLimited, bridge.CodeBusy:
		kind = KindRateLimited
	case bridge.CodeBudget:
		kind = KindQuota
	case bridge.CodeNotFound:
		kind = KindNotFound
	case bridge.CodeUnsupported, bridge.CodeInvalid:
		kind = KindUnsupported
	case bridge.CodeConflict:
		kind = KindConflict
	case bridge.CodeUnavailable, bridge.CodeCrashed:
		kind = KindUnavailable
	case bridge.CodeTimeout:
		kind = KindTimeout
	case bridge.CodeCanceled:
		kind = KindCanceled
	case bridge.CodeProvider, bridge.CodeInternal:
	}
	return &Fault{Code: codeOther, Message: e.Error(), Data: &FaultData{Kind: kind}}
}
