package contract

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// again reads JSON with the standard library, numbers as they are written.
func again(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("the standard library cannot read %q: %v", data, err)
	}
	return v
}

// same compares two readings. Floats may differ by their last digits, since
// one of the readers does not round to the nearest.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		o, ok := b.(map[string]any)
		if !ok || len(o) != len(a) {
			return false
		}
		for k := range a {
			if v, ok := o[k]; !ok || !same(a[k], v) {
				return false
			}
		}
		return true
	case []any:
		l, ok := b.([]any)
		if !ok || len(l) != len(a) {
			return false
		}
		for i := range a {
			if !same(a[i], l[i]) {
				return false
			}
		}
		return true
	case json.Number:
		n, ok := b.(json.Number)
		if !ok || a == n {
			return ok
		}
		if i, err := a.Int64(); err == nil && !strings.ContainsAny(string(a), ".eE") && a != "-0" {
			j, err := n.Int64()
			return err == nil && i == j
		}
		x, _ := a.Float64() // a range error comes with the nearest value
		y, _ := n.Float64()
		return x == y || math.Abs(x-y) <= 1e-15*math.Abs(x) || math.Abs(x-y) < 1e-322
	}
	return a == b
}

// inOrder reports whether the keys of every object are sorted, by reading
// tokens.
func inOrder(t *testing.T, data []byte) bool {
	t.Helper()
	type level struct {
		object, value bool
		last          string
		any           bool
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var stack []level
	for {
		token, err := d.Token()
		if err != nil {
			return len(stack) == 0
		}
		if n := len(stack); n > 0 && stack[n-1].object {
			l := &stack[n-1]
			if key, ok := token.(string); ok && !l.value {
				if l.any && key <= l.last {
					return false
				}
				l.last, l.any, l.value = key, true, true
				continue
			}
			l.value = false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			stack = append(stack, level{object: token == json.Delim('{')})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
	}
}

func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"b":[1,-2,3.5,"x\u0000\n",null,true],"a":{"":1e300,"é":-0}}`, `"\ud83d\ude00</>"`, `18446744073709551616`, `[[[]]]`, `{"a":1,"a":2}`, "0.1e-6", `"`, `{"a"`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseValue(data)
		if err != nil {
			return
		}
		out := AppendValue(nil, v)
		if !utf8.Valid(out) || !same(again(t, data), again(t, out)) {
			t.Fatalf("%q became %q", data, out)
		}
		if !inOrder(t, out) {
			t.Fatalf("keys are not sorted: %q", out)
		}
		if w, err := ParseValue(out); err != nil || !same(again(t, out), again(t, AppendValue(nil, w))) {
			t.Fatalf("%q is not read back: %v", out, err)
		}
	})
}

func FuzzReceipt(f *testing.F) {
	var all []vector
	data := vectorsForFuzzing(f, "receipt_hash_vectors.json", &all)
	for _, v := range data {
		f.Add([]byte(v.Input))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseReceipt(data)
		if err != nil {
			return
		}
		canonical, travelling := r.Canonical(), r.Append(nil)
		if !inOrder(t, canonical) {
			t.Fatalf("keys are not sorted: %q", canonical)
		}
		a, ok := again(t, canonical).(map[string]any)
		b, ok2 := again(t, travelling).(map[string]any)
		if ok && ok2 {
			b["receipt_sha256"] = nil
		}
		if !same(a, b) {
			t.Fatalf("%q and %q differ", canonical, travelling)
		}
		second, err := ParseReceipt(travelling)
		if err != nil || !same(again(t, second.Canonical()), any(a)) {
			t.Fatalf("%q is not read back: %v", travelling, err)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	var all []vector
	for _, v := range vectorsForFuzzing(f, "envelope_decode_vectors.json", &all) {
		f.Add([]byte(v.Input))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		strict, err := ParseEnvelope(data)
		lenient, lerr := ParseHostLine(data)
		if err == nil && lerr != nil {
			t.Fatalf("the lenient reader refuses %q: %v", data, lerr)
		}
		if lerr == nil {
			_ = again(t, AppendEnvelope(nil, lenient))
		}
		if err != nil {
			return
		}
		line := AppendEnvelope(nil, strict)
		if bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("%q is more than a line", line)
		}
		back, err := ParseEnvelope(line)
		if err != nil || !same(again(t, AppendEnvelope(nil, back)), again(t, line)) {
			t.Fatalf("%q is not read back: %v", line, err)
		}
	})
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"2030-01-01T00:00:00Z", "2030-6-1 1:2:3.5 +01:30", "+12345-01-01T00:00:00UTC", "2016-12-31T23:59:60−00:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := ParseTime(s)
		if err != nil {
			return
		}
		if back, err := ParseTime(at.String()); err != nil || back != at {
			t.Fatalf("%q became %q: %v", s, at, err)
		}
	})
}

func vectorsForFuzzing(f *testing.F, name string, to *[]vector) []vector {
	f.Helper()
	data := readFile(f, "testdata/"+name)
	if err := json.Unmarshal(data, to); err != nil {
		f.Fatal(err)
	}
	return *to
}
