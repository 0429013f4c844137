package json5

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestStandardize(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"a":1}`, `{"a":1}`},
		{"// c\n{ /* x */ a: 'b', $c_1: [1, 2,], }\n// end", `{"a":"b","$c_1":[1,2]}`},
		{`{'it\'s': "say \"hi\"\n\x41\u00e9"}`, `{"it's":"say \"hi\"\nAé"}`},
		{"{a: 'one \\\ntwo'}", `{"a":"one two"}`},
		{"{a: 'one \\\u2028two'}", `{"a":"one two"}`},
		{`['\ud83d\ude00', '\ud83d!', '\ud83d\u0041']`, `["😀","` + "\ufffd" + `!","` + "\ufffd" + `A"]`},
		{`[+1, -.5, 5., 0xFF, -0x10, 1e3, Infinity, -Infinity, NaN, 1e999, true, null]`, `[1,-0.5,5,255,-16,1000,null,null,null,null,true,null]`},
		{`[0xFFFFFFFFFFFFFFFFFF]`, `[4.722366482869645e+21]`},
		{"\ufeff{}", `{}`},
		{`"http://x//y /* no */"`, `"http://x//y /* no */"`},
		{`{a-b: 1}`, `{"a-b":1}`},
		{`{\u0061b: 1}`, `{"ab":1}`},
		{`"<&>"`, `"<&>"`},
		{``, ``}, {`{`, ``}, {`{a}`, ``}, {`{a:}`, ``}, {`[1 2]`, ``}, {`{} {}`, ``}, {`'x`, ``}, {"'x\n'", ``}, {`/*`, ``}, {`nope`, ``}, {`[,]`, ``}, {`0xZZ`, ``}, {`0x1p4`, ``}, {`'\u12'`, ``}, {"\xff", ``},
		{`-true`, ``}, {`inf`, ``}, {`--1`, ``}, {`1_0`, ``}, {`-`, ``}, {`{,}`, ``}, {`{1:2,,}`, ``},
		{strings.Repeat("[", 1000), ``},
	} {
		got, err := Standardize([]byte(tt.in))
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%.40q: %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestSyntaxError(t *testing.T) {
	_, err := Parse([]byte("{\n  a: 1,\n  b: oops,\n}"))
	if err == nil || err.Error() != `line 3: "oops" is not a value` {
		t.Errorf("%v", err)
	}
}

func FuzzStandardize(f *testing.F) {
	for _, s := range []string{`{a:'b',/*c*/"d":[1,0x2,],}`, `{"a":{"b":[true,false,null]}}`, `'\u00e9\x41\'`, `[+.5,-Infinity]`, "// x\n{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Standardize(data)
		if err == nil && !json.Valid(out) {
			t.Fatalf("%q became %q", data, out)
		}
		// A JSON text means the same afterwards.
		var plain any
		if json.Unmarshal(data, &plain) == nil && err == nil && !same(data, json.RawMessage(out)) {
			t.Fatalf("%q became %q", data, out)
		}
	})
}

func TestGet(t *testing.T) {
	d, err := Parse([]byte("{a: {b: [1, {c: 'x'}]}, a: {b: 2}} // dup"))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := d.Get("a", "b"); !ok || string(got) != "2" || !d.Comments() {
		t.Errorf("%s, %v", got, ok)
	}
	for _, path := range [][]string{{"x"}, {"a", "b", "c"}, {"a", "x"}} {
		if got, ok := d.Get(path...); ok {
			t.Errorf("%q: %s", path, got)
		}
	}
}
