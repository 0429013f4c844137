package anthropic

import (
	"bytes"
	"encoding/json"
)

// encode is v as JSON in one line. Only values that are JSON by nature are
// given to it, so that it cannot fail: the types of this package, and what
// encoding/json has decoded.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("{}")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
