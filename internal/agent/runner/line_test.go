package runner

import (
	"strings"
	"testing"
)

// FuzzNormalise: every line is something, and nothing is lost of a line that
// is no event.
func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"", "plain", `{"type":"assistant_delta","text":"x"}`, `{"type":"tool_call","input":[1],"name":"n"}`, `{"t":"event","event":{"type":"usage"}}`,
		`{"type":"tool_result","output":null,"error":{"a":1}}`, `{"kind":"error","message":{"deep":true},"status":500}`, `{"type":7}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		l := normalise(raw)
		switch l.kind {
		case kindDelta:
			if !strings.HasPrefix(strings.TrimSpace(raw), "{") && l.text != raw+"\n" {
				t.Fatalf("%q became %q", raw, l.text)
			}
		case kindMessage, kindCall, kindResult, kindWarning, kindError, kindUsage:
		default:
			t.Fatalf("%q is a %q", raw, l.kind)
		}
	})
}
