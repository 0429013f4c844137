package acpschema

import (
	"strings"
	"testing"
)

// The checker itself must be able to fail.
func TestCheck(t *testing.T) {
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if !s.There() {
		t.Skip("the schema is not at hand")
	}
	c := s.Follow(t)
	c.Client([]byte(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`))
	for _, tt := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"size":2}}}`, ""},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":-1,"size":2}}}`, "usage_update"},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"1"}}}`, "tool_call"},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[{"content":"a","priority":"odd","status":"pending"}]}}}`, "plan"},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "session/new"},
		{`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`, "nobody asked"},
		{`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{},"options":[]}}`, "request_permission"},
		{`{"jsonrpc":"2.0","id":0,"method":"session/surprise","params":{}}`, "session/surprise"},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, ""},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`, "error"},
		{`hello`, "no message"},
		{`{"id":1,"result":{}}`, "version"},
	} {
		err := c.check([]byte(tt.line))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.line, err, tt.want)
		}
	}
}
