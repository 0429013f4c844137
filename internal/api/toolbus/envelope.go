package toolbus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// request is one request object, or the fault in it.
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
		return whole(jsonrpc.CodeParse, "the message is not UTF-8")
	}
	if err := valid(message); err != nil {
		return whole(jsonrpc.CodeParse, err.Error())
	}
	if wire.KindOf(message) != wire.Array {
		return []request{parseOne(message)}, false
	}
	dec := json.NewDecoder(bytes.NewReader(message))
	if _, err := dec.Token(); err != nil {
		return whole(jsonrpc.CodeParse, err.Error())
	}
	for dec.More() {
		if len(all) == maxBatch {
			return whole(jsonrpc.CodeInvalidRequest, fmt.Sprintf("a batch may have %d requests at most", maxBatch))
		}
		var one json.RawMessage
		if err := dec.Decode(&one); err != nil {
			return whole(jsonrpc.CodeParse, err.Error())
		}
		all = append(all, parseOne(one))
	}
	if len(all) == 0 {
		return whole(jsonrpc.CodeInvalidRequest, "the batch is empty")
	}
	return all, true
}

// parseOne reads one request object. Names must match to the letter, which
// encoding/json does not ask for.
func parseOne(data []byte) request {
	r := request{}
	refuse := func(detail string) request {
		if r.id == nil || !isID(r.id) {
			r.id = nullID
		}
		r.fault = protocolFault(jsonrpc.CodeInvalidRequest, detail)
		return r
	}
	if wire.KindOf(data) != wire.Object {
		return refuse("expected an object, got " + wire.KindOf(data).String())
	}
	var m struct {
		Version json.RawMessage `json:"jsonrpc"`
		Method  json.RawMessage `json:"method"`
		Params  json.RawMessage `json:"params"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	err := wire.Unmarshal(data, &m)
	r.id, r.params = m.ID, m.Params
	switch {
	case err != nil:
		return refuse(err.Error())
	case m.Method == nil && (m.Result != nil || m.Error != nil):
		// Its id is one of the client's own. A client that numbers both ways
		// must not take this for the answer to another request.
		r.id = nil
		return refuse("an answer, but nothing was asked")
	case r.id != nil && !isID(r.id):
		return refuse("id: expected a string, a number or null, got " + wire.KindOf(r.id).String())
	case m.Version == nil:
		return refuse(`jsonrpc is missing: expected "2.0"`)
	case !isString(m.Version, "2.0"):
		return refuse(`jsonrpc: expected "2.0"`)
	case m.Method == nil:
		return refuse("method is missing")
	case wire.KindOf(m.Method) != wire.String:
		return refuse("method: expected a string, got " + wire.KindOf(m.Method).String())
	}
	if err := json.Unmarshal(m.Method, &r.method); err != nil {
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

// valid says where a message ceases to be JSON.
func valid(message []byte) error {
	if json.Valid(message) {
		return nil
	}
	var ignored struct{}
	err := json.Unmarshal(message, &ignored)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%w at byte %d", syntax, syntax.Offset)
	}
	return errors.New("the message is not JSON")
}

// members calls f with each member of an object, in order. Unlike a struct, it
// tells names apart by case.
func members(object []byte, f func(name string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return err
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		name, _ := token.(string) // it is one: the object is valid
		if err := f(name, value); err != nil {
			return err
		}
	}
	return nil
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
		body = fmt.Appendf(nil, `{"code":%d,"message":"Internal error"}`, jsonrpc.CodeInternal)
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
