package task

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func FuzzOutput(f *testing.F) {
	f.Add([]byte("hello wörld 😀"), 5, 3)
	f.Add([]byte("\xff\xf0\x9f\x98"), 1, 1)
	f.Add([]byte(strings.Repeat("ä", 100)), 10, 7)
	f.Fuzz(func(t *testing.T, data []byte, limit, chunk int) {
		limit, chunk = 1+(limit&0xff), 1+(chunk&0x3f)
		var streamed strings.Builder
		var turn sync.Mutex
		o := newOutput("stdout", limit, &turn, func(_ string, b []byte) {
			if !utf8.Valid(b) {
				t.Errorf("piece %q", b)
			}
			streamed.Write(b)
		})
		for rest := data; len(rest) > 0; {
			n := min(chunk, len(rest))
			_, _ = o.Write(rest[:n]) // it takes all
			rest = rest[n:]
		}
		o.flush()
		got := o.String()
		if !utf8.ValidString(got) {
			t.Errorf("result %q", got)
		}
		if o.truncated() != (len(data) > limit) {
			t.Errorf("%d of %d bytes: truncated is %v", limit, len(data), o.truncated())
		}
		if !o.truncated() {
			want := strings.ToValidUTF8(string(data), "\uFFFD")
			if utf8.Valid(data) && (got != want || streamed.String() != want) {
				t.Errorf("got %q, streamed %q, want %q", got, streamed.String(), want)
			}
			return
		}
		if len(o.head)+len(o.tail) > limit {
			t.Errorf("kept %d of %d", len(o.head)+len(o.tail), limit)
		}
		if utf8.Valid(data) && (strings.Contains(got, "\uFFFD") != strings.Contains(string(data), "\uFFFD")) && strings.Contains(got, "\uFFFD") {
			t.Errorf("a character was cut: %q", got)
		}
	})
}
