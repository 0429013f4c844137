package audit

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A log from before entries named their callers verifies, and goes on with
// entries that do. What a client says of itself is redacted and cut.
func TestCallers(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/before-callers")); err != nil {
		t.Fatal(err)
	}
	clean(t, dir, 4)
	old, err := Tail(t.Context(), dir, 4)
	if err != nil || old[0].Caller != "" || old[1].Result != nil {
		t.Fatalf("%+v, %v", old, err)
	}
	c := newClock()
	c.t = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	hide := func(v any) any {
		if s, ok := v.(string); ok {
			return strings.ReplaceAll(s, "secret", "[REDACTED]")
		}
		return v
	}
	l, err := Open(dir, Options{Redact: hide, now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	given := Entry{Hook: HookPostTool, Tool: "view", Caller: "a client\n" + strings.Repeat("x", 2000), Connection: "secret", Request: "7",
		Result: &Result{Bytes: 9, SHA256: hexSum([]byte("my secret")), Preview: "my secret"}}
	if err := l.Append(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	clean(t, dir, 5)
	now, err := Tail(t.Context(), dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	e := now[0]
	if len(e.Caller) != maxName || e.Connection != "[REDACTED]" || e.Request != "7" || e.Result == nil || e.Result.Preview != "my [REDACTED]" || e.Result.Bytes != 9 {
		t.Errorf("%+v, %+v", e, e.Result)
	}
	if given.Result.Preview != "my secret" {
		t.Error("the caller's entry was changed")
	}
	line := Format(e)
	for _, want := range []string{`caller=a client\nxxx`, "connection=[REDACTED]", "request=7", `result=9 bytes, sha256 ` + given.Result.SHA256[:12], `"my [REDACTED]"`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
}
