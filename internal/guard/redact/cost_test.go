package redact

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// hostile are texts to repeat: the keyword of every rule, alone and in what may
// stand around it, and texts that are costly for other reasons. Of the rules every
// step-th is taken.
func hostile(step int) map[string]string {
	units := map[string]string{}
	words := collect().words
	for i, w := range words {
		if i%step != 0 {
			continue
		}
		other := words[(i*7+3)%len(words)]
		for name, unit := range map[string]string{
			"alone": w, "=": w + "=", ": ": w + ": ", "space": w + " ", "in quotes": `"` + w + `": "`, "with another": w + "=" + other, "after -": "-" + w, "before +": w + "+",
			"spaces": w + strings.Repeat(" ", 40), "backslashes": w + `\\\\\\\`, "escapes": w + `=\n`, "percent": w + "%3D", "nested": `\\\\\\\"` + w + `\\\\\\\":`,
			"value": w + "=aB3dE6gH9jK2mN5pQ8sT1vW4yZ7", "values": w + "=a1;",
		} {
			units[fmt.Sprintf("%q %s", w, name)] = unit
		}
	}
	for _, unit := range []string{"-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----\n", "-----END RSA PRIVATE KEY-----\n", "-----BEGIN CERTIFICATE-----\n", "eyJ", "-eyJ", "://", "a@", "=", "@", "%",
		`"password": `, `\`, " ", "a", "A", "1", "-", "_", ".", "\n", `"`, "'", `\"`, `\\\"`, `{"password":`, "[", "Aa1", "/", "+", "cookie=a=b;", "PASSWORD=,", "PASSWORD=;!", `pwd=\"`, "pwd='",
		"aB3dE6gH9jK2mN5pQ8sT1vW4yZ7/aB3dE6gH9jK2mN5pQ8sT1vW4yZ7/aB3dE6gH\n", "x.key:5:aB3dE6gH\n"} {
		units[fmt.Sprintf("%q", unit)] = unit
	}
	return units
}

// streamed redacts a text that arrives in pieces of a size.
func streamed(r *Redactor, size int) func(string) {
	return func(s string) {
		st := r.NewStream()
		for at := 0; at < len(s); at += size {
			st.Write(s[at:min(len(s), at+size)])
		}
		st.Flush()
	}
}

// ways are how a text may be redacted.
func ways(r *Redactor) map[string]func(string) {
	return map[string]func(string){
		"String": func(s string) { r.String(s) },
		"Lines":  func(s string) { _, _, _ = r.Lines(context.Background(), s) },
		"Stream": streamed(r, 1000),
		"bytes":  streamed(r, 1),
		"Value":  func(s string) { r.Value(map[string]any{"output": s, "json": `{"x": "` + s + `"}`}) },
	}
}

// quickest is the least of some times that f took.
func quickest(times int, f func()) time.Duration {
	best := time.Hour
	for range times {
		began := time.Now()
		f()
		best = min(best, time.Since(began))
	}
	return best
}

// TestLinearTime holds that eight times the text takes about eight times as
// long: a rule that reads what it has read takes 64 times as long. What is
// quick is not looked at closely, and what seems slow is measured again, as
// others may be using the machine.
func TestLinearTime(t *testing.T) {
	const size = 32 << 10
	r := New(Options{Secrets: []string{"the-token-of-this-bridge-0123456789"}}).Results()
	for way, redact := range ways(r) {
		t.Run(way, func(t *testing.T) {
			// The ways share the rules, so a part of these will do for most.
			step := map[string]int{"String": 4, "bytes": 101}[way]
			if step == 0 {
				step = 11
			}
			if underRace {
				step *= 10
			}
			for name, unit := range hostile(step) {
				whole := strings.Repeat(unit, size/len(unit)+1)[:size]
				took := quickest(1, func() { redact(whole) })
				for tries := 0; took > 60*time.Millisecond; tries++ {
					part := quickest(3, func() { redact(whole[:size/8]) })
					if took = min(took, quickest(2, func() { redact(whole) })); took < 24*part {
						break
					}
					if tries == 12 { // on a machine with many others at work one undisturbed run may take a while
						t.Errorf("%s: %d bytes take %s, an eighth of them %s", name, size, took, part)
						break
					}
				}
			}
		})
	}
}

// TestManyKeysAlike holds that keys which look the same once they are redacted
// are told apart in linear time.
func TestManyKeysAlike(t *testing.T) {
	keys := func(n int) map[string]any {
		m := map[string]any{}
		for i := range n {
			m[fmt.Sprintf("password=hunter2x%d", i)] = i
		}
		return m
	}
	r := New(Options{})
	few, many := keys(1000), keys(8000)
	var out any
	for tries := 0; ; tries++ {
		a, b := quickest(3, func() { r.Value(few) }), quickest(2, func() { out, _ = r.Value(many) })
		if b < 24*a {
			break
		}
		if tries == 4 {
			t.Fatalf("1000 keys take %s, 8000 %s", a, b)
		}
	}
	if all, ok := out.(map[string]any); !ok || len(all) != 8000 {
		t.Errorf("%d keys are left", len(all))
	}
}

// impatient is a context that ends when it has been asked so often.
type impatient struct {
	context.Context
	left int
}

func (c *impatient) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestCancelled holds that a cancelled call returns no text, and
// that the work ends soon after: a look at the context every 32 KB, and few
// when it has ended.
func TestCancelled(t *testing.T) {
	r := New(Options{Secrets: []string{"the-token-of-this-bridge-0123456789"}}).Results()
	text := strings.Repeat("AccountKey=password=hunter2 the-token-of-this-bridge-0123456789 ", 16<<10)
	for _, after := range []int{0, 1, 5, 20} {
		for way, redact := range map[string]func(context.Context) (any, int, error){
			"StringContext": func(ctx context.Context) (any, int, error) { return r.StringContext(ctx, text) },
			"Lines":         func(ctx context.Context) (any, int, error) { return r.Lines(ctx, text) },
			"ValueContext": func(ctx context.Context) (any, int, error) {
				return r.ValueContext(ctx, map[string]any{"a": text, "b": []any{text, text}})
			},
		} {
			ctx := &impatient{Context: t.Context(), left: after}
			out, hits, err := redact(ctx)
			if !errors.Is(err, context.Canceled) || hits != 0 || out != nil && out != "" {
				t.Errorf("%s: %d hits, %v", way, hits, err)
			}
			if ctx.left < -20 {
				t.Errorf("%s looked at the context %d times more", way, -ctx.left)
			}
		}
	}
	counted := &impatient{Context: t.Context(), left: 1 << 30}
	if _, _, err := r.StringContext(counted, text); err != nil || 1<<30-counted.left < len(text)/checkEvery {
		t.Errorf("looked at the context %d times in %d bytes: %v", 1<<30-counted.left, len(text), err)
	}
}

// TestNestedValues holds that values too deep to be judged are hidden.
func TestNestedValues(t *testing.T) {
	r := New(Options{})
	for _, name := range []string{"pwd=", "PASSWORD=", "token:", "api_key=", "secret%3D"} {
		text := "a " + strings.Repeat(name, 100) + `correct-horse\dbattery z` + "\n"
		out, _ := r.String(text)
		if strings.Contains(out, "horse") || strings.Contains(out, "battery") || !strings.HasPrefix(out, "a ") || !strings.HasSuffix(out, " z\n") {
			t.Errorf("%q became %q", text, out)
		}
		if got, _ := cutUp(t, r, text, []int{3, 50, 51, 200, 400}); got != out {
			t.Errorf("in pieces %q, not %q", got, out)
		}
	}
}

// TestManyKnown holds that the number of known values hardly matters, even if
// all of them begin like the text.
func TestManyKnown(t *testing.T) {
	with := func(n int) *Redactor {
		var values []string
		for i := range n {
			values = append(values, fmt.Sprintf("ghgh%08d", i))
		}
		return New(Options{}).With(values)
	}
	few, many := with(100), with(20_000)
	text := strings.Repeat("gh", 20_000)
	for tries := 0; ; tries++ {
		a, b := quickest(3, func() { few.String(text) }), quickest(2, func() { many.String(text) })
		if b < 8*a {
			break
		}
		if tries == 4 {
			t.Fatalf("100 values take %s, 20,000 take %s", a, b)
		}
	}
	if out, _ := many.String("x ghgh00012345 y ghgh0001234 z"); out != "x "+Marker+" y ghgh0001234 z" {
		t.Errorf("%q", out)
	}
}

// TestKnownWithinKnown holds that the longest value counts.
func TestKnownWithinKnown(t *testing.T) {
	r := New(Options{}).With([]string{"abcdef", "abcdefgh", "abcdefghij", "abcdefzz"})
	for text, want := range map[string]string{
		"abcdefghij.": Marker + ".", "abcdefghi.": Marker + "i.", "abcdefg.": Marker + "g.", "abcdefz.": Marker + "z.", "abcdefzz": Marker, "abcde": "abcde",
	} {
		if got, _ := r.String(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		st, got := r.NewStream(), ""
		for _, c := range text {
			got += st.Write(string(c))
		}
		if got += st.Flush(); got != want {
			t.Errorf("%q in pieces: %q, want %q", text, got, want)
		}
	}
}
