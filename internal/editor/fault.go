package editor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// codeOther is the JSON-RPC code of most errors. The kind says what happened.
const codeOther = -32000

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

// Fault is an error as it travels. Its data names the Kind.
type Fault = jsonrpc.Error

// NewFault is an error of one kind.
func NewFault(kind Kind, message string) *Fault {
	return &Fault{Code: codeOther, Message: message, Data: fmt.Appendf(nil, `{"kind":%q}`, kind)}
}

// KindOf is the kind of an error.
func KindOf(f *Fault) Kind {
	var data struct {
		Kind Kind `json:"kind"`
	}
	if json.Unmarshal(f.Data, &data) != nil || data.Kind == "" {
		return KindInternal
	}
	return data.Kind
}

const agree = "run “Bridge: Enable” in VS Code's command palette and agree to what it asks"

// kinds maps the extension's kinds to the domain's codes, and back: the first
// row that fits counts, in both directions.
var kinds = []struct {
	kind   Kind
	code   bridge.Code
	remedy string
}{
	{KindInternal, bridge.CodeProvider, ""},
	{KindConsent, bridge.CodeConsent, agree},
	{KindDenied, bridge.CodeDenied, agree},
	{KindRateLimited, bridge.CodeRateLimited, "wait a moment, then try again"},
	{KindBlocked, bridge.CodeRateLimited, "wait a moment, then try again"},
	{KindQuota, bridge.CodeQuota, "see what is left of your Copilot plan"},
	{KindNotFound, bridge.CodeNotFound, "choose another model; GET /v1/models lists what there is"},
	{KindTooLong, bridge.CodeProvider, "send less of the conversation, or choose a model with a larger context"},
	{KindUnsupported, bridge.CodeUnsupported, ""},
	{KindNoProvider, bridge.CodeUnsupported, ""},
	{KindConflict, bridge.CodeConflict, ""},
	{KindUnavailable, bridge.CodeUnavailable, "see that you are signed in to Copilot in VS Code"},
	{KindTimeout, bridge.CodeTimeout, ""},
	{KindCanceled, bridge.CodeCanceled, ""},
	// Codes that only the bridge sends.
	{KindDenied, bridge.CodeUnauthenticated, ""},
	{KindRateLimited, bridge.CodeBusy, ""},
	{KindUnsupported, bridge.CodeInvalid, ""},
	{KindUnavailable, bridge.CodeCrashed, ""},
}

// asError is an error of the extension as the domain has it.
func asError(f *Fault) *bridge.Error {
	e := &bridge.Error{Code: bridge.CodeProvider, Message: cmp.Or(f.Message, "the editor gave no reason")}
	kind := KindOf(f)
	for _, k := range kinds {
		if k.kind == kind {
			e.Code, e.Remedy = k.code, k.remedy
			break
		}
	}
	if kind == KindTooLong {
		e.Status = http.StatusBadRequest
	}
	return e
}

// faultOf is an error of ours as the extension gets it.
func faultOf(err error) *Fault {
	var f *Fault
	switch {
	case errors.Is(err, jsonrpc.ErrCanceled):
		return NewFault(KindCanceled, "the request was canceled")
	case errors.As(err, &f):
		return f
	}
	e := bridge.AsError(err)
	for _, k := range kinds {
		if k.code == e.Code {
			return NewFault(k.kind, e.Error())
		}
	}
	return NewFault(KindInternal, e.Error())
}
