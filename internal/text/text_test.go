package text

import "testing"

func TestShortened(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Clip("short", 5), "short"},
		{Clip("longer", 4), "long…"},
		{Clip("aé", 2), "a…"},
		{Clip("日本", 0), "…"},
		{Quote("a\x1bb", 10), `"a\x1bb"`},
		{Quote("abcdef", 3), `"abc…"`},
		{FirstLine(" one \r\ntwo", 10), "one…"},
		{FirstLine("one\n \n", 10), "one"},
		{FirstLine("日本語", 2), "日…"},
		{FirstLine("日本", 2), "日本"},
		{LastLines("a\nb\nc\n", 2, 100), "b\nc"},
		{LastLines("日本", 5, 4), "本"},
		{LastLines("", 5, 4), ""},
		{Plural(0, "file"), "0 files"},
		{Plural(1, "file"), "1 file"},
		{Plural(2, "process"), "2 processes"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestIncomplete(t *testing.T) {
	for b, want := range map[string]int{"": 0, "a": 0, "é": 0, "a\xc3": 1, "\xe6\x97": 2, "\xf0\x9f\x98": 3, "\xff": 0, "\x80\x80": 0} {
		if got := Incomplete([]byte(b)); got != want {
			t.Errorf("%q: got %d, want %d", b, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"model", "log_level", "serve.port", "readOnly"}
	for word, want := range map[string]string{
		"modal": "model", "READONLY": "readOnly", "loglevel": "log_level", "serve.prot": "serve.port", "zzz": "", "": "",
		string(make([]byte, 1000)): "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("%.20q: got %q, want %q", word, got, want)
		}
	}
}
