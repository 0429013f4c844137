package json5

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestSet shows where new values go and how they look.
func TestSet(t *testing.T) {
	server := struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{"x", []string{"y"}}
	for _, tt := range []struct {
		name, in string
		value    any
		path     string
		want     string
	}{
		{"empty", `{}`, 1, "a", "{\n  \"a\": 1\n}"},
		{"empty with a comment", "{ // nothing yet\n}", 1, "a", "{\n  \"a\": 1 // nothing yet\n}"},
		{"parents", "{\n\t\"x\": 1\n}\n", server, "mcp.servers.copilot",
			"{\n\t\"mcp\": {\n\t\t\"servers\": {\n\t\t\t\"copilot\": {\n\t\t\t\t\"command\": \"x\",\n\t\t\t\t\"args\": [\n\t\t\t\t\t\"y\"\n\t\t\t\t]\n\t\t\t}\n\t\t}\n\t},\n\t\"x\": 1\n}\n"},
		{"trailing comma and comment", "{\n  a: 1, // one\n  // two\n}", 2, "b", "{\n  \"b\": 2,\n  a: 1, // one\n  // two\n}"},
		{"comment without comma", "{\n  a: 1 // one\n}", 2, "b", "{\n  \"b\": 2,\n  a: 1 // one\n}"},
		{"long comment", "{\n  a: 1 /* one\n  two */ }", 2, "b", "{\n  \"b\": 2,\n  a: 1 /* one\n  two */ }"},
		{"one line", `{a: {b: 1}, c: [1]}`, 2, "a.d", `{a: {"d": 2, b: 1}, c: [1]}`},
		{"one line, trailing comma", "{ a: 1, }", 2, "b", `{"b": 2, a: 1, }`},
		{"replace", "{\n  a: 'x', // why\n  b: 2,\n}", "y", "a", "{\n  a: \"y\", // why\n  b: 2,\n}"},
		{"replace lines", "{\n  a: {\n    b: 1,\n  },\n}", map[string]any{"c": 2}, "a", "{\n  a: {\n    \"c\": 2\n  },\n}"},
		{"same", "{a: 0x10}", 16, "a", "{a: 0x10}"},
		{"windows", "{\r\n  a: 1\r\n}\r\n", map[string]int{"c": 1}, "b", "{\r\n  \"b\": {\r\n    \"c\": 1\r\n  },\r\n  a: 1\r\n}\r\n"},
		{"byte order mark", "\ufeff{}", 1, "a", "\ufeff{\n  \"a\": 1\n}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Parse([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			u, err := d.Set(tt.value, strings.Split(tt.path, ".")...)
			if got := string(d.Bytes()); got != tt.want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
			if (u == nil) != (tt.in == tt.want) {
				t.Errorf("%+v", u)
			}
			if u == nil {
				return
			}
			if err := d.Revert(u); err != nil || !reverted(t, []byte(tt.in), d) {
				t.Errorf("back: %q, %v", d.Bytes(), err)
			}
		})
	}
}

// reverted says whether a document means what a text means, and has its
// comments.
func reverted(t *testing.T, text []byte, d *Document) bool {
	t.Helper()
	was, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	comments := func(d *Document) (out []string) {
		for _, c := range d.comments {
			out = append(out, d.text[c.start:c.end])
		}
		return out
	}
	return same(was.JSON(), json.RawMessage(d.JSON())) && slices.Equal(comments(was), comments(d))
}

func TestAppend(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{p: {q: ["a"]}}`, `{p: {q: ["a", "x"]}}`},
		{"{p: {q: [\n  'a', // first\n]}}", "{p: {q: [\n  'a', \"x\", // first\n]}}"},
		{`{p: {q: ['x']}}`, `{p: {q: ['x']}}`},
		{`{p: {q: []}}`, "{p: {q: [\n  \"x\"\n]}}"},
		{`{p: {r: 1}}`, `{p: {"q": ["x"], r: 1}}`},
	} {
		d, err := Parse([]byte(tt.in))
		if err != nil {
			t.Fatal(err)
		}
		u, err := d.Append("x", "p", "q")
		if got := string(d.Bytes()); got != tt.want || err != nil || (u == nil) != (tt.in == tt.want) {
			t.Errorf("%s: got %q, %v", tt.in, got, err)
		}
		if u != nil {
			if err := d.Revert(u); err != nil || !reverted(t, []byte(tt.in), d) {
				t.Errorf("back: %q, %v", d.Bytes(), err)
			}
		}
	}
}

func TestRefuse(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{a: 1}`, "a is not an object"},
		{`{a: {b: 1}, a: {}}`, "a is there twice"},
		{`[]`, " is not an object"},
		{`{a: {b: {}}}`, ""},
	} {
		d, err := Parse([]byte(tt.in))
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Set(1, "a", "b", "c")
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: %v", tt.in, err)
		}
		if err != nil && string(d.Bytes()) != tt.in {
			t.Errorf("%s", d.Bytes())
		}
	}
	d, _ := Parse([]byte(`{a: {}}`))
	if _, err := d.Append(1, "a"); err == nil {
		t.Error("an object took an element")
	}
}

// TestRevertLater takes a change back after others have changed the document.
func TestRevertLater(t *testing.T) {
	for _, tt := range []struct{ name, before, after, now, want string }{
		{"somebody has added beside it", `{}`, "{\n  \"a\": {\n    \"b\": {\n      \"c\": 1\n    }\n  }\n}",
			`{"a": {"b": {"c": 1, "d": 2}}}`, `{"a": {"b": {"d": 2}}}`},
		{"somebody has added above it", `{}`, "", `{"a": {"b": {"c": 1}, "d": 2}}`, `{"a": {"d": 2}}`},
		{"written anew", "{ // x\n}", "", `{"a":{"b":{"c":1}}}`, `{}`},
		{"gone", `{}`, "", `{"x": 1}`, `{"x": 1}`},
		{"a comment inside", `{}`, "", "{a: { // mine\n b: {c: 1}}}", "{a: { // mine\n }}"},
		{"a comment before the end", `{}`, "", "{x: 1, // mine\n a: {b: {c: 1}}}", "{x: 1 // mine\n }"},
		{"comma far away", `{}`, "", "{x: 1, // mine\n a: {b: {c: 1}} /* y */ , }", "{x: 1, // mine\n  /* y */  }"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Parse([]byte(tt.before))
			if err != nil {
				t.Fatal(err)
			}
			u, err := d.Set(1, "a", "b", "c")
			if err != nil || tt.after != "" && string(d.Bytes()) != tt.after {
				t.Fatalf("%s, %v", d.Bytes(), err)
			}
			kept, err := json.Marshal(u)
			if err != nil {
				t.Fatal(err)
			}
			var back Undo
			if err := json.Unmarshal(kept, &back); err != nil {
				t.Fatal(err)
			}
			now, err := Parse([]byte(tt.now))
			if err != nil {
				t.Fatal(err)
			}
			if err := now.Revert(&back); err != nil || string(now.Bytes()) != tt.want {
				t.Errorf("%q, %v; want %q", now.Bytes(), err, tt.want)
			}
		})
	}
}

// writer makes documents at random.
type writer struct {
	*rand.Rand
	b strings.Builder
}

func (w *writer) pick(of ...string) string { return of[w.IntN(len(of))] }

// gap writes white space and comments.
func (w *writer) gap() {
	for range w.IntN(3) {
		w.b.WriteString(w.pick(" ", "\n", "\t", "\r\n", "  ", "\n    ", "\u00a0", "\u2028", "// c, \"x\": {\n", "//\r\n", "/* } ] , // */", "/*\n*/", "// trailing  \n"))
	}
}

func (w *writer) key() string {
	name := w.pick("a", "b", "c", "d", "$x", "é")
	return w.pick(name, "'"+name+"'", `"`+name+`"`)
}

func (w *writer) value(depth int) {
	w.gap()
	if depth > 3 || w.IntN(3) == 0 {
		w.b.WriteString(w.pick("1", "-.5", "0xA", "true", "null", "Infinity", `"s"`, `'it"s // no'`, `"/* no */"`, `'\u0041\
'`, `{}`, `[]`))
		w.gap()
		return
	}
	open, end := "{", "}"
	if w.IntN(4) == 0 {
		open, end = "[", "]"
	}
	w.b.WriteString(open)
	used := map[string]bool{}
	n := w.IntN(4)
	for i := range n {
		w.gap()
		if open == "{" {
			key := w.key()
			name := strings.Trim(key, `'"`)
			for used[name] {
				name += "z"
				key = name
			}
			used[name] = true
			w.b.WriteString(key)
			w.gap()
			w.b.WriteString(":")
		}
		w.value(depth + 1)
		if i < n-1 || w.IntN(2) == 0 {
			w.b.WriteString(",")
		}
	}
	w.gap()
	w.b.WriteString(end)
	w.gap()
}

// checkChange sets or appends something, and takes it back: the text must mean
// what it meant and keep its comments, and between the two nothing else may
// have changed.
func checkChange(t *testing.T, text []byte, path []string, value any, list bool) {
	t.Helper()
	d, err := Parse(text)
	if err != nil {
		return
	}
	var want any
	if json.Unmarshal(d.JSON(), &want) != nil {
		t.Fatalf("%q gave %s", text, d.JSON())
	}
	change := d.Set
	if list {
		change = d.Append
	}
	u, err := change(value, path...)
	if err != nil {
		if !bytes.Equal(d.Bytes(), text) {
			t.Fatalf("a failure has changed %q to %q", text, d.Bytes())
		}
		return
	}
	if u == nil {
		if !bytes.Equal(d.Bytes(), text) {
			t.Fatalf("nothing to do, and yet %q became %q", text, d.Bytes())
		}
		return
	}
	changed := d.Bytes()
	again, err := Parse(changed)
	if err != nil {
		t.Fatalf("%q became %q: %v", text, changed, err)
	}
	var got any
	if json.Unmarshal(again.JSON(), &got) != nil {
		t.Fatalf("%q became %q", text, changed)
	}
	if want := place(want, path, value, list); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q became %q: it says %v instead of %v", text, changed, got, want)
	}
	if u2, err := map[bool]func(any, ...string) (*Undo, error){false: again.Set, true: again.Append}[list](value, path...); u2 != nil || err != nil {
		t.Fatalf("twice is not once: %q became %q, %v", changed, again.Bytes(), err)
	}
	// An Undo that was stored as JSON works as well.
	kept, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	var back Undo
	if err := json.Unmarshal(kept, &back); err != nil {
		t.Fatal(err)
	}
	if err := again.Revert(&back); err != nil || !reverted(t, text, again) {
		t.Fatalf("%q became %q and then %q, %v", text, changed, again.Bytes(), err)
	}
}

// place changes a plain value as Set and Append should.
func place(v any, path []string, value any, list bool) any {
	var plain any
	_ = json.Unmarshal([]byte(render(value, "", "")), &plain)
	if len(path) == 0 {
		if list {
			a, _ := v.([]any)
			return append(slices.Clone(a), plain)
		}
		return plain
	}
	m, _ := v.(map[string]any)
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	out[path[0]] = place(out[path[0]], path[1:], value, list)
	return out
}

func TestSetAndRevertAnything(t *testing.T) {
	for seed := range uint64(10_000) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 7))}
		w.value(0)
		text := w.b.String()
		path := make([]string, 1+w.IntN(4))
		for i := range path {
			path[i] = w.pick("a", "b", "c", "d", "$x", "é", "new", "$include")
		}
		values := []any{1, "s", []string{"x", "y"}, map[string]any{"k": map[string]any{"l": []int{1}}}, map[string]any{}, nil}
		checkChange(t, []byte(text), path, values[w.IntN(len(values))], w.IntN(3) == 0)
	}
}

func FuzzSetAndRevert(f *testing.F) {
	f.Add([]byte("{\n  a: 1, // x\n  b: {c: [1]},\n}"), "b.c", true)
	f.Add([]byte("{a: {/* x */}}"), "a.b", false)
	f.Add([]byte("{// x\n}"), "a.b.c", false)
	f.Add([]byte("{a: 1 // x\n, b: 2 // y\n}"), "c", false)
	f.Add([]byte(`{"a": {"b": {"c": 1}}}`), "a.b", false)
	f.Fuzz(func(t *testing.T, text []byte, path string, list bool) {
		if !utf8.ValidString(path) {
			t.Skip("a key that is not UTF-8 cannot be in a JSON5 file")
		}
		checkChange(t, text, strings.Split(path, "."), map[string]any{"x": "y"}, list)
	})
}
