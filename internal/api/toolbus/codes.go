package toolbus

import (
	"context"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// codes is the one table from the domain's codes to JSON-RPC's, with what they
// mean to people in the OpenRPC document. The first five are JSON-RPC's own, the
// last is that of the Language Server Protocol, and those between are this
// API's, in the range that JSON-RPC leaves to servers.
var codes = []struct {
	domain  bridge.Code
	code    int
	meaning string
}{
	{"", jsonrpc.CodeParse, "Parse error: the message is not JSON"},
	{"", jsonrpc.CodeInvalidRequest, "Invalid Request: the message is JSON, but no request"},
	{"", jsonrpc.CodeMethodNotFound, "Method not found"},
	{bridge.CodeInvalid, jsonrpc.CodeInvalidParams, "Invalid params: data.path is the one at fault"},
	{bridge.CodeInternal, jsonrpc.CodeInternal, "Internal error"},
	{bridge.CodeBusy, -32001, "Busy: a bound was reached; try again later"},
	{bridge.CodeDenied, -32010, "Denied by the policy or by a person"},
	{bridge.CodeConflict, -32011, "Conflict: the state is not what the caller assumed"},
	{bridge.CodeNotFound, -32012, "Not found: no such file, task or question"},
	{bridge.CodeUnsupported, -32013, "Unsupported: there is no language server for the file, or it cannot do that"},
	{bridge.CodeTimeout, -32014, "Time ran out"},
	{bridge.CodeUnavailable, -32015, "Unavailable: what is needed cannot be reached, or the bridge is shutting down"},
	{bridge.CodeCrashed, -32016, "Copilot's runtime exited"},
	{bridge.CodeUnauthenticated, -32017, "Not logged in, or the token is missing or wrong"},
	{bridge.CodeRateLimited, -32018, "The model's provider asks to wait"},
	{bridge.CodeProvider, -32019, "The model's provider failed"},
	{bridge.CodeBudget, -32020, "A turn, token or cost limit was reached"},
	{bridge.CodeConsent, -32021, "A person has to agree first"},
	{bridge.CodeQuota, -32022, "The account's quota is used up"},
	{bridge.CodeCanceled, jsonrpc.CodeCanceled, "Canceled by the client"},
}

func codeOf(c bridge.Code) int {
	for _, row := range codes {
		if row.domain == c && c != "" {
			return row.code
		}
	}
	return jsonrpc.CodeInternal
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
	name := map[int]string{jsonrpc.CodeParse: "Parse error", jsonrpc.CodeInvalidRequest: "Invalid Request", jsonrpc.CodeMethodNotFound: "Method not found"}[code]
	f := &fault{Code: code, Message: strings.TrimSuffix(name+": "+detail, ": "), Data: &faultData{Code: bridge.CodeInvalid}}
	if code == jsonrpc.CodeMethodNotFound {
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
	case jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeParse:
		e.Code = bridge.CodeInvalid
	}
	return e
}
