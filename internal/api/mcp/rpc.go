package mcp

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMessage bounds what a client may send at once, in bytes.
const maxMessage = 16 << 20

// part is a message of a line or a body or, if it is invalid, the answer that
// explains the error.
type part struct {
	msg   jsonrpc.Message
	fault []byte
}

// parts takes a line or a body apart; batch is set if it is a list of messages.
func parts(text []byte) (all []part, batch bool) {
	var list []json.RawMessage
	if !json.Valid(text) {
		return []part{{fault: fault(nil, jsonrpc.CodeParseError, "this is not JSON")}}, false
	}
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("[")) || json.Unmarshal(text, &list) != nil {
		return []part{decode(text)}, false
	}
	for _, one := range list {
		all = append(all, decode(one))
	}
	if len(all) == 0 {
		return []part{{fault: fault(nil, jsonrpc.CodeInvalidRequest, "the batch is empty")}}, false
	}
	return all, true
}

// decode reads a message that is valid JSON.
func decode(text []byte) part {
	var head struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(text, &head) != nil {
		return part{fault: fault(nil, jsonrpc.CodeInvalidRequest, "JSON, but not a JSON-RPC 2.0 message")}
	}
	// The SDK would answer to another id if it cannot keep this one.
	if id := head.ID; len(id) > 0 && id[0] != '"' && !bytes.Equal(id, []byte("null")) {
		if n, err := strconv.ParseInt(string(id), 10, 64); err != nil || max(n, -n) > 1<<53 {
			return part{fault: fault(nil, jsonrpc.CodeInvalidRequest, "the id is neither a text nor a whole number below 2^53")}
		}
	}
	msg, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return part{fault: fault(head.ID, jsonrpc.CodeInvalidRequest, err.Error())}
	}
	return part{msg: msg}
}

// fault is an error as an answer.
func fault(id json.RawMessage, code int64, message string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	data, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: code, Message: message}})
	if err != nil {
		panic(err) // only an id that is not JSON could do that, and those are refused
	}
	return data
}
