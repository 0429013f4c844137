package redact

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

var encodings = []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding}

// cutUp feeds s to a stream in pieces that end at the given places, and
// reports the most that was held back.
func cutUp(t testing.TB, r *Redactor, s string, cuts []int) (out string, held int) {
	t.Helper()
	st := r.NewStream()
	var b strings.Builder
	from := 0
	valid := utf8.ValidString(s)
	emit := func(piece string) {
		if valid && !utf8.ValidString(piece) {
			t.Fatalf("half a character in %q", piece)
		}
		b.WriteString(piece)
	}
	for _, cut := range cuts {
		emit(st.Write(s[from:cut]))
		from = cut
		// The held part is the missing end of the output for the text so far.
		if so, _ := r.String(s[:cut]); len(so)-b.Len() > held {
			held = len(so) - b.Len()
		}
	}
	emit(st.Write(s[from:]))
	emit(st.Flush())
	return b.String(), held
}

func sampleTexts(rng *rand.Rand, each int) []string {
	var texts []string
	all := append(familySecrets(), keyedSecrets()...)
	all = append(all, placedSecrets()...)
	for _, k := range all {
		for range each {
			token := k.make(rng)
			var cases []sample
			switch {
			case k.lone:
				cases = loneContexts(token, token)
			case k.key != "":
				cases = contexts(k.key, token, token)
			}
			for _, place := range k.extra {
				cases = append(cases, place(token))
			}
			for _, c := range cases {
				texts = append(texts, c.text)
			}
		}
	}
	return texts
}

// TestStreamAtEveryCut cuts texts with secrets in two at every place.
func TestStreamAtEveryCut(t *testing.T) {
	r := New(Options{Secrets: []string{"known-secret-value"}})
	rng := rand.New(rand.NewPCG(3, 4))
	texts := sampleTexts(rng, 1)
	rng.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	for _, text := range append(texts[:150], "ä known-secret-value ü password=süß3Käse! €") {
		want, _ := r.String(text)
		for cut := range len(text) {
			if got, _ := cutUp(t, r, text, []int{cut}); got != want {
				t.Fatalf("cut at %d of %q\n got %q\nwant %q", cut, text, got, want)
			}
		}
	}
}

// TestStreamByteByByte also checks how much is held back.
func TestStreamByteByByte(t *testing.T) {
	r := New(Options{Secrets: []string{"known-secret-value"}})
	rng := rand.New(rand.NewPCG(5, 6))
	most := 0
	for _, text := range sampleTexts(rng, 1) {
		want, _ := r.String(text)
		var cuts []int
		for i := 1; i < len(text); i++ {
			cuts = append(cuts, i)
		}
		got, held := cutUp(t, r, text, cuts)
		if got != want {
			t.Fatalf("%q\n got %q\nwant %q", text, got, want)
		}
		most = max(most, held)
	}
	t.Logf("at most %d bytes were held back", most)
	if most > 512 {
		t.Errorf("%d bytes held back", most)
	}
}

// TestStreamIsPrompt checks that ordinary text is let out as it comes.
func TestStreamIsPrompt(t *testing.T) {
	st := New(Options{}).NewStream()
	in, out := 0, 0
	for _, word := range strings.SplitAfter(strings.Repeat("The quick brown fox jumps over 13 lazy dogs, and the path of a token is long. ", 20), " ") {
		in += len(word)
		out += len(st.Write(word))
		if in-out > 32 {
			t.Fatalf("%d bytes held back after %q", in-out, word)
		}
	}
}

// TestStreamLongSecrets checks that a secret of any length is held in a
// bounded window.
func TestStreamLongSecrets(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	body := pick(rng, letters+numerals, 200_000)
	var lines strings.Builder
	for i := 0; i+64 <= len(body); i += 64 {
		lines.WriteString(body[i:i+64] + "\n")
	}
	for name, text := range map[string]string{
		"token":    "a sk-proj-" + body + " b",
		"password": `{"password":"` + body + `","n":1}`,
		"bare":     "SECRET=" + body + "\nx",
		"bearer":   "Bearer " + body + " b",
		"jwt":      "eyJ" + body[:40] + "." + body + " b",
		"key":      "-----BEGIN PRIVATE KEY-----\n" + lines.String() + "-----END PRIVATE KEY-----\nb",
		"key line": "-----BEGIN PRIVATE KEY-----" + body + "-----END PRIVATE KEY-----\nb",
		"open key": "-----BEGIN PRIVATE KEY-----\n" + lines.String(),
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Options{})
			want, n := r.String(text)
			if n != 1 || len(want) > 120 {
				t.Fatalf("%d hits, %d bytes left", n, len(want))
			}
			st := r.NewStream()
			var got strings.Builder
			for i := 0; i < len(text); i += 997 {
				got.WriteString(st.Write(text[i:min(i+997, len(text))]))
				if window := len(st.forms.sc.s); window > 2500 {
					t.Fatalf("the window has grown to %d", window)
				}
			}
			got.WriteString(st.Flush())
			if got.String() != want {
				t.Errorf("got %q, want %q", got.String(), want)
			}
		})
	}
}

func TestStreamCanBeUsedAgain(t *testing.T) {
	st := New(Options{}).NewStream()
	for range 2 {
		if got := st.Write("password=hun") + st.Write("ter2") + st.Flush(); got != "password=[REDACTED]" {
			t.Fatalf("got %q", got)
		}
	}
}
