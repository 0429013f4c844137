package acpwire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The error codes of JSON-RPC and of ACP.
const (
	CodeParse            = -32700
	CodeInvalidRequest   = -32600
	CodeMethodNotFound   = -32601
	CodeInvalidParams    = -32602
	CodeInternal         = -32603
	CodeCancelled        = -32800
	CodeAuthRequired     = -32000
	CodeResourceNotFound = -32002
)

// Error is an error as it travels. A handler that returns one has it sent as
// it is; any other error is sent as CodeInternal with its text.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error returns the message, what "details" the data holds, and the code.
func (e *Error) Error() string {
	text := e.Message
	if d := e.Details(); d != "" && d != text {
		text += ": " + d
	}
	return fmt.Sprintf("%s (%d)", text, e.Code)
}

// Details is the text that many agents put into the data of an error whose
// message is no more than "Internal error".
func (e *Error) Details() string {
	var text string
	if json.Unmarshal(e.Data, &text) == nil {
		return text
	}
	var obj struct {
		Details string `json:"details"`
		Message string `json:"message"`
	}
	if json.Unmarshal(e.Data, &obj) != nil {
		return ""
	}
	if obj.Details != "" {
		return obj.Details
	}
	return obj.Message
}

// Errorf makes an error to answer with.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first Error in err's chain, or 0.
func CodeOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// ErrClosed is in the chain of every error that says that the other side, or
// this one, has gone.
var ErrClosed = errors.New("the connection is closed")
