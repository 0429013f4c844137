package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The error codes of JSON-RPC, and the one that the Language Server Protocol
// and the Agent Client Protocol have for canceled requests.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeCanceled       = -32800
)

// Error is an error as it travels.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error is the message with the details in the data, and the code.
func (e *Error) Error() string {
	text := e.Message
	if d := e.details(); d != "" && d != text {
		text += ": " + d
	}
	return fmt.Sprintf("%s (%d)", text, e.Code)
}

// details is the text in the data of an error, which many peers put there.
func (e *Error) details() string {
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

// ErrClosed is in the chain of errors about a connection that has ended.
var ErrClosed = errors.New("the connection is closed")

// Message is any message. Which fields are set says what it is.
type Message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Null is a result that is null. A handler's nil is sent as {}.
var Null = json.RawMessage("null")

var (
	errNotJSON = errors.New("not JSON")
	errNotRPC  = errors.New("JSON, but not a JSON-RPC 2.0 message")
	errBadID   = errors.New("the id is neither a number nor a text")
)

// Decode reads a message. It also returns a bad message if the text is JSON, for the
// id of the answer. A null id is none. Unless strict, the version may be missing.
func Decode(text []byte, strict bool) (*Message, error) {
	m := &Message{}
	if err := json.Unmarshal(text, m); err != nil {
		var shape *json.UnmarshalTypeError
		if !errors.As(err, &shape) {
			return nil, errNotJSON
		}
		return m, errNotRPC
	}
	if bytes.Equal(m.ID, Null) {
		m.ID = nil
	}
	answer := m.Result != nil || m.Error != nil
	switch {
	case m.Version != "2.0" && (strict || m.Version != ""),
		m.Method == "" && m.ID == nil && (strict || m.Error == nil),
		m.Method != "" && answer && strict:
		return m, errNotRPC
	case m.ID != nil && m.ID[0] != '"' && m.ID[0] != '-' && (m.ID[0] < '0' || m.ID[0] > '9'):
		m.ID = nil
		return m, errBadID
	}
	return m, nil
}
