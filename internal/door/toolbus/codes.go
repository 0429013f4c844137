package toolbus

import (
	"context"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// The codes that JSON-RPC fixes.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// The codes of this door, in the range that JSON-RPC leaves to servers; the
// last is what the Language Server Protocol uses.
const (
	codeBusy            = -32001
	codeDenied          = -32010
	codeConflict        = -32011
	codeNotFound        = -32012
	codeUnsupported     = -32013
	codeTimeout         = -32014
	codeUnavailable     = -32015
	codeCrashed         = -32016
	codeUnauthenticated = -32017
	codeRateLimited     = -32018
	codeProvider        = -32019
	codeBudget          = -32020
	codeConsent         = -32021
	codeCanceled        = -32800
)

// codeOf is the one table from the domain's codes to JSON-RPC's.
func codeOf(c bridge.Code) int {
	switch c {
	case bridge.CodeInvalid:
		return codeInvalidParams
	case bridge.CodeDenied:
		return codeDenied
	case bridge.CodeConsent:
		return codeConsent
	case bridge.CodeConflict:
		return codeConflict
	case bridge.CodeNotFound:
		return codeNotFound
	case bridge.CodeUnsupported:
		return codeUnsupported
	case bridge.CodeTimeout:
		return codeTimeout
	case bridge.CodeCanceled:
		return codeCanceled
	case bridge.CodeBusy:
		return codeBusy
	case bridge.CodeUnavailable:
		return codeUnavailable
	case bridge.CodeCrashed:
		return codeCrashed
	case bridge.CodeUnauthenticated:
		return codeUnauthenticated
	case bridge.CodeRateLimited:
		return codeRateLimited
	case bridge.CodeProvider:
		return codeProvider
	case bridge.CodeBudget:
		return codeBudget
	case bridge.CodeInternal:
		return codeInternal
	}
	return codeInternal
}

// meaning explains the codes to people, in the OpenRPC document.
var meaning = []fault{
	{Code: codeParse, Message: "Parse error: the message is not JSON"},
	{Code: codeInvalidRequest, Message: "Invalid Request: the message is JSON, but no request"},
	{Code: codeNoMethod, Message: "Method not found"},
	{Code: codeInvalidParams, Message: "Invalid params: data.path is the one at fault"},
	{Code: codeInternal, Message: "Internal error"},
	{Code: codeBusy, Message: "Busy: a bound was reached; try again later"},
	{Code: codeDenied, Message: "Denied by the policy or by a person"},
	{Code: codeConflict, Message: "Conflict: the state is not what the caller assumed"},
	{Code: codeNotFound, Message: "Not found: no such file, task or question"},
	{Code: codeUnsupported, Message: "Unsupported: there is no language server for the file, or it cannot do that"},
	{Code: codeTimeout, Message: "Time ran out"},
	{Code: codeUnavailable, Message: "Unavailable: what is needed cannot be reached, or the bridge is shutting down"},
	{Code: codeCrashed, Message: "Copilot's runtime exited"},
	{Code: codeUnauthenticated, Message: "Not logged in, or the token is missing or wrong"},
	{Code: codeRateLimited, Message: "The model's provider asks to wait"},
	{Code: codeProvider, Message: "The model's provider failed"},
	{Code: codeBudget, Message: "A turn, token or cost limit was reached"},
	{Code: codeConsent, Message: "A person has to agree first"},
	{Code: codeCanceled, Message: "Canceled by the client"},
}

// fault is JSON-RPC's error object.
type fault struct {
	Code    int        `json:"code"`
	Message string     `json:"message"`
	Data    *faultData `json:"data,omitempty"`
}

// faultData is what this door adds to every error.
type faultData struct {
	Code         bridge.Code `json:"code"`
	Remedy       string      `json:"remedy,omitempty"`
	Path         string      `json:"path,omitempty"` // of the parameter at fault
	RetryAfterMs int64       `json:"retryAfterMs,omitempty"`
}

// faultOf shows an error as the client gets it. ctx is that of the call: why
// it ended says more than that it did.
func faultOf(ctx context.Context, err error) *fault {
	e := bridge.AsError(err)
	if ctx.Err() != nil && (e.Code == bridge.CodeCanceled || e.Code == bridge.CodeTimeout && e.Message == "") {
		e = bridge.AsError(context.Cause(ctx))
	}
	f := &fault{Code: codeOf(e.Code), Message: e.Error(),
		Data: &faultData{Code: e.Code, Remedy: e.Remedy, Path: wire.Path(e), RetryAfterMs: e.RetryAfter.Milliseconds()}}
	switch {
	case e.Code == bridge.CodeInternal && e.Message == "":
		f.Message = "Internal error" // the cause was not written for the client
	case e.Code == bridge.CodeInvalid && e.Message != "":
		f.Message = "Invalid params: " + e.Message // it names the place already
	case e.Code == bridge.CodeCanceled && e.Message == "":
		f.Message = "the request was canceled"
	case e.Code == bridge.CodeTimeout && e.Message == "":
		f.Message = "time ran out"
	}
	return f
}

// protocolFault is a violation of JSON-RPC itself.
func protocolFault(code int, detail string) *fault {
	name := map[int]string{codeParse: "Parse error", codeInvalidRequest: "Invalid Request", codeNoMethod: "Method not found"}[code]
	f := &fault{Code: code, Message: strings.TrimSuffix(name+": "+detail, ": "), Data: &faultData{Code: bridge.CodeInvalid}}
	if code == codeNoMethod {
		f.Data.Remedy = "rpc.discover lists the methods"
	}
	return f
}

// asError is the way back, for clients.
func (f *fault) asError() *bridge.Error {
	e := &bridge.Error{Code: bridge.CodeInternal, Message: f.Message}
	if f.Data != nil && f.Data.Code != "" {
		e.Code, e.Remedy = f.Data.Code, f.Data.Remedy
		return e
	}
	switch f.Code {
	case codeInvalidRequest, codeNoMethod, codeInvalidParams, codeParse:
		e.Code = bridge.CodeInvalid
	}
	return e
}
