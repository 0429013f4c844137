package toolbus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// request is one request object, or what is wrong with it.
type request struct {
	id     json.RawMessage // as it was sent; nil for a notification
	method string
	params json.RawMessage // an object or an array; nil if there are none
	fault  *fault          // of the envelope
}

var nullID = json.RawMessage("null")

// parse takes a message apart. There is at least one request; more only in a
// batch. A fault of the message as a whole is one request that is no batch.
func parse(message []byte, maxBatch int) (all []request, batch bool) {
	whole := func(code int, detail string) ([]request, bool) {
		return []request{{id: nullID, fault: protocolFault(code, detail)}}, false
	}
	if !utf8.Valid(message) {
		return whole(codeParse, "the message is not UTF-8")
	}
	if err := valid(message); err != nil {
		return whole(codeParse, err.Error())
	}
	if wire.KindOf(message) != wire.Array {
		return []request{parseOne(message)}, false
	}
	dec := json.NewDecoder(bytes.NewReader(message))
	if _, err := dec.Token(); err != nil {
		return whole(codeParse, err.Error())
	}
	for dec.More() {
		if len(all) == maxBatch {
			return whole(codeInvalidRequest, fmt.Sprintf("a batch may have %d requests at most", maxBatch))
		}
		var one json.RawMessage
		if err := dec.Decode(&one); err != nil {
			return whole(codeParse, err.Error())
		}
		all = append(all, parseOne(one))
	}
	if len(all) == 0 {
		return whole(codeInvalidRequest, "the batch is empty")
	}
	return all, true
}

// parseOne reads one request object. Names count to the letter, which
// encoding/json does not hold to, and nothing is kept of members that no
// request has.
func parseOne(data []byte) request {
	r := request{}
	refuse := func(detail string) request {
		if r.id == nil || !isID(r.id) {
			r.id = nullID
		}
		r.fault = protocolFault(codeInvalidRequest, detail)
		return r
	}
	if wire.KindOf(data) != wire.Object {
		return refuse("expected an object, got " + wire.KindOf(data).String())
	}
	var version, method json.RawMessage
	answer := false
	err := members(data, func(name string, value json.RawMessage) error {
		switch name {
		case "jsonrpc":
			version = value
		case "method":
			method = value
		case "params":
			r.params = value
		case "id":
			r.id = value
		case "result", "error":
			answer = true
		}
		return nil
	})
	switch {
	case err != nil:
		return refuse(err.Error())
	case answer && method == nil:
		// Its id is one of the client's own; whoever numbers both ways must
		// not take this for the answer to another request.
		r.id = nil
		return refuse("an answer, but nothing was asked")
	case r.id != nil && !isID(r.id):
		return refuse("id: expected a string, a number or null, got " + wire.KindOf(r.id).String())
	case version == nil:
		return refuse(`jsonrpc is missing: expected "2.0"`)
	case !isString(version, "2.0"):
		return refuse(`jsonrpc: expected "2.0"`)
	case method == nil:
		return refuse("method is missing")
	case wire.KindOf(method) != wire.String:
		return refuse("method: expected a string, got " + wire.KindOf(method).String())
	}
	if err := json.Unmarshal(method, &r.method); err != nil {
		return refuse("method: " + err.Error())
	}
	switch kind := wire.KindOf(r.params); kind {
	case wire.Object, wire.Array:
	case wire.Invalid: // there are none
	case wire.Null, wire.Bool, wire.Number, wire.String:
		return refuse("params: expected an object or an array, got " + kind.String())
	}
	return r
}

func isID(data json.RawMessage) bool {
	switch wire.KindOf(data) {
	case wire.String, wire.Number, wire.Null:
		return true
	case wire.Invalid, wire.Bool, wire.Array, wire.Object:
	}
	return false
}

func isString(data json.RawMessage, want string) bool {
	var s string
	return wire.KindOf(data) == wire.String && json.Unmarshal(data, &s) == nil && s == want
}

// idKey is the same for ids that are the same, however a string is escaped.
// Numbers count as they are written: 1 and 1.0 are two.
func idKey(id json.RawMessage) string {
	var s string
	if wire.KindOf(id) == wire.String && json.Unmarshal(id, &s) == nil {
		return strconv.Quote(s)
	}
	return string(id)
}

// encode returns v as JSON in one line, without the escapes that only HTML
// needs.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// resultMessage answers a request, in pieces that make one message. It is put
// together by hand, so that a large result is neither read nor copied once
// more.
func resultMessage(id json.RawMessage, result any) ([][]byte, error) {
	head := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":`...)
	if f, ok := result.(*found); ok {
		return f.encoded(head, []byte{'}'}), nil
	}
	body, err := encode(result)
	if err != nil {
		return nil, err
	}
	return [][]byte{append(append(append(make([]byte, 0, len(head)+len(body)+1), head...), body...), '}')}, nil
}

func faultMessage(id json.RawMessage, f *fault) []byte {
	body, err := encode(f)
	if err != nil { // never: it is made of strings and numbers
		body = fmt.Appendf(nil, `{"code":%d,"message":"Internal error"}`, codeInternal)
	}
	out := make([]byte, 0, len(body)+len(id)+40)
	out = append(append(out, `{"jsonrpc":"2.0","id":`...), id...)
	out = append(append(out, `,"error":`...), body...)
	return append(out, '}')
}

// notification encodes a message that wants no answer.
func notification(method string, params any) ([]byte, error) {
	return encode(struct {
		JSONRPC string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", method, params})
}
