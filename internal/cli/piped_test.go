package cli

import (
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// pipe is standard input that somebody writes text to, and closes if asked to.
func pipe(t *testing.T, text string, end bool) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = w.WriteString(text) // fails when the reader has had enough
		if end {
			_ = w.Close()
		}
	}()
	t.Cleanup(func() {
		_ = r.Close()
		<-written
		_ = w.Close()
	})
	return r
}

func TestPipedInput(t *testing.T) {
	line := strings.Repeat("x", 1023) + "\n"
	for name, tt := range map[string]struct {
		text   string
		open   bool // the writer stays
		want   int  // bytes
		stderr string
		err    string
	}{
		"short":      {"a\nb\n\n", false, 3, "", ""},
		"empty":      {"", false, 0, "", ""},
		"long":       {strings.Repeat(line, 300), false, maxPiped - 1, "! the input is longer than 256 KiB; only its first 262144 bytes are used\n", ""},
		"one line":   {strings.Repeat("é", maxPiped), false, maxPiped, "! the input is longer than 256 KiB; only its first 262144 bytes are used\n", ""},
		"odd line":   {"a" + strings.Repeat("é", maxPiped), false, maxPiped - 1, "! the input is longer than 256 KiB; only its first 262143 bytes are used\n", ""},
		"nobody":     {"", true, 0, "! nothing came on standard input within 50ms; it is ignored. To wait for it, give the task as \"-\"\n", ""},
		"no text":    {"a\x00b", false, 0, "", "the input is not UTF-8 text"},
		"bad text":   {"a\xffb", false, 0, "", "the input is not UTF-8 text"},
		"never ends": {strings.Repeat(line, 300), true, maxPiped - 1, "! the input is longer than 256 KiB; only its first 262144 bytes are used\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Stdin = pipe(t, tt.text, !tt.open)
			p, stop := newProgram(w.Env, func(error) {})
			defer stop()
			within := 50 * time.Millisecond
			if tt.stderr == "" || tt.text != "" {
				within = time.Minute
			}
			got, err := p.pipedInput(t.Context(), within)
			if len(got) != tt.want || !utf8.ValidString(got) || w.err.String() != tt.stderr {
				t.Errorf("%d bytes, want %d; stderr %q", len(got), tt.want, w.err)
			}
			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// /dev/null is no input, and no reason to wait.
func TestNoPipedInput(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	w := newWorld(t)
	w.Stdin = null
	p, stop := newProgram(w.Env, func(error) {})
	defer stop()
	if got, err := p.pipedInput(t.Context(), time.Minute); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
