package toolbus

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzWellFormed holds the quick look at a message to encoding/json.
func FuzzWellFormed(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `{}`, `[]`, ` [ ] `, `{"a":1,"b":[true,false,null]}`, `{"a"}`, `{"a":}`, `{,}`, `[1,]`, `[1 2]`, `{} {}`, `{"a":1,}`, `{1:2}`, `tru`, `nulls`,
		`0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e`, `1e+`, `1E-2`, `-1.5e+3 `, `+1`, `"a`, `"\`, `"\u12"`, `"\u12g4"`, `"\uABcd"`, `"\x"`, `"\n\""`,
		"\"\x01\"", "\"\t\"", "\"\x7f\xff\"", "[\x00]", "\v1", strings.Repeat("[", 20), strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := wellFormed(data); got != json.Valid(data) {
			t.Errorf("%.200q: %v", data, got)
		}
	})
}

// FuzzMembers holds the way that objects are taken apart to encoding/json.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, "{ \"a\" :\t[ 1 , {\"b\":\"}\"} ] ,\n\"c\" : null }", `{"a":-1.5e+3,"a":true}`, `{"a\"\\":"\\\\\"","":{}}`,
		`{"text":"a\nb\tc\r\b\f\/\\\"\u00e9\u4e16\ud83d\ude00 é 世"}`, `{"odd":"\ud83d","pair":"\ud83d\u0041","late":"\udc00\ud800","end":"\ud83d\\u"}`,
		`{"a":[[],[{}],"]"],"b":{"c":{"d":[]}}}`, `{"zero":"\u0000","marker":"\ufffd\ud800\udfff"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]json.RawMessage
		if !utf8.Valid(data) || !json.Valid(data) || bytes.TrimLeft(data, " \t\r\n")[0] != '{' || json.Unmarshal(data, &want) != nil {
			return
		}
		got := map[string]json.RawMessage{}
		if err := members(data, func(name string, value json.RawMessage) error { got[name] = value; return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d members, want %d", len(got), len(want))
		}
		for name, value := range want {
			if !bytes.Equal(got[name], value) {
				t.Errorf("%q: %q, want %q", name, got[name], value)
			}
			var s string
			if value[0] == '"' {
				if err := json.Unmarshal(value, &s); err != nil || text(value) != s {
					t.Errorf("%s: %q, want %q, %v", value, text(value), s, err)
				}
			}
		}
	})
}
