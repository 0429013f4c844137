package toolbus

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

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
		}
	})
}
