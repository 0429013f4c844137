package config

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		"", "model: a\n", "byok: {provider: openai, model: x}\nbyok.api_key: k\n", "abp:\n  args: [a, 'b', 3]\n",
		"project_context: |\n  a\n  b\n", "a: &x 1\nb: *x\n", "<<: {model: a}\n", "? {a: b}\n: c\n", "---\n...\n---\nx: y\n",
		"!!map {model: !!str 5}\n", "model: \"\\q\"\n", "- a\n- b\n", "%YAML 1.2\n---\nmodel: a\n", "\xef\xbb\xbfmodel: a", "a: [",
		"languages:\n  go: {command: [gopls], tab_size: 4, settings: {gopls: {a: [1, true, null, 1.5]}}}\ntasks: {lint: make lint}\n", "languages: {a: &x {}, b: *x}\n",
	} {
		f.Add([]byte(seed))
	}
	table := settings(&Config{})
	f.Fuzz(func(t *testing.T, data []byte) {
		values, faults := parseYAML(data, table)
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for key, v := range values {
			s := find(table, key)
			if s == nil || s.noFile() || v.line < 1 || v.line > lines {
				t.Errorf("%s from line %d of %d", key, v.line, lines)
				continue
			}
			checkSet(t, s, v.value)
		}
		for _, fault := range faults {
			if fault.line < 1 || fault.line > lines || fault.text == "" || strings.Contains(fault.text, "\n") {
				t.Errorf("fault %+v in %d lines", fault, lines)
			}
		}
	})
}

// checkSet sets a value that has come from outside and, if it is taken, wants
// it to be taken again as it is shown.
func checkSet(t *testing.T, s *setting, value string) {
	t.Helper()
	if strings.TrimSpace(value) == "" {
		return
	}
	where := place{dir: t.TempDir(), home: t.TempDir()}
	if err := s.set(value, where); err != nil || s.secret() {
		return
	}
	shown := s.text()
	if err := s.set(shown, where); err != nil || s.text() != shown {
		t.Errorf("%s=%q is shown as %q, which gives %q, %v", s.key, value, shown, s.text(), err)
	}
}

func FuzzDotEnv(f *testing.F) {
	for _, seed := range []string{
		"", "COPILOT_LOG_LEVEL=debug\n", "export OPENCLAW_PORT='1' # c\n", "A=\"a\nb\"\nB=2", "A: b\r\n", "A=$A${A}$(A)\\$\n",
		"A=\"\\n\\r\\\"\"\n", "A", "A=\"", "A='x\\'\n'\n", "\xef\xbb\xbfA=1", "A=\x00", "=", "#\n", "A=1\rB=2",
	} {
		f.Add([]byte(seed))
	}
	table := settings(&Config{})
	f.Fuzz(func(t *testing.T, data []byte) {
		values, bad := parseDotEnv(data, table)
		lines := strings.Count(string(data), "\n") + 1
		if bad < 0 || bad > lines {
			t.Errorf("wrong line %d of %d", bad, lines)
		}
		size := 0
		for name, v := range values {
			if v.line < 1 || v.line > lines || strings.ContainsRune(v.value, 0) {
				t.Errorf("%q: %+v of %d lines", name, v, lines)
			}
			size += len(name) + len(v.value)
		}
		// Nothing is expanded: values are no larger than the file, save that a
		// byte that is not UTF-8 comes out as three.
		if size > 3*len(data) {
			t.Errorf("%d bytes became %d", len(data), size)
		}
		for _, s := range table {
			if v, ok := values[s.env]; ok {
				checkSet(t, &s, v.value)
			}
		}
	})
}

func FuzzWords(f *testing.F) {
	for _, seed := range []string{"", "a b", `'a' "b\"" \c`, `["a", "b"]`, `[null]`, `"`, `\`, "a\u00a0b", "\xff", `[`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := parseList(text, unicode.IsSpace)
		if err != nil || !utf8.ValidString(text) {
			return
		}
		if again, err := parseList(textOf(words), unicode.IsSpace); err != nil || !slices.Equal(again, words) {
			t.Errorf("%q gave %q, but as JSON %q, %v", text, words, again, err)
		}
		if len(words) == 0 {
			return
		}
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		if again, err := splitWords(strings.Join(quoted, " "), unicode.IsSpace); err != nil || !slices.Equal(again, words) {
			t.Errorf("%q gave %q, but quoted %q, %v", text, words, again, err)
		}
	})
}
