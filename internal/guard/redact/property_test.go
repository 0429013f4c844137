package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// tokens lists the tokens of a JSON text; strings are all the same, since
// their contents may change.
func tokens(text string) ([]string, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var all []string
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if _, is := tok.(string); is {
			tok = "string"
		}
		all = append(all, fmt.Sprintf("%T %v", tok, tok))
	}
}

// checkText holds what must be true of any text whatever.
func checkText(t testing.TB, r *Redactor, s string) {
	t.Helper()
	once, hits := r.String(s)
	if (hits > 0) != (once != s) && !strings.Contains(s, Marker) {
		t.Fatalf("%d hits in %q, which became %q", hits, s, once)
	}
	if twice, _ := r.String(once); twice != once {
		t.Fatalf("not idempotent: %q\n became %q\n   then %q", s, once, twice)
	}
	if utf8.ValidString(s) && !utf8.ValidString(once) {
		t.Fatalf("%q became %q, which is not UTF-8", s, once)
	}
	if !json.Valid([]byte(s)) {
		return
	}
	before, err := tokens(s)
	if err != nil {
		return // valid, but deeper than the decoder goes
	}
	after, err := tokens(once)
	if err != nil || !json.Valid([]byte(once)) {
		t.Fatalf("%q became %q, which is not JSON: %v", s, once, err)
	}
	if !reflect.DeepEqual(before, after) {
		t.Fatalf("%q became %q, which has another structure", s, once)
	}
}

// jsonValue makes a random value that is full of secrets, names of secrets,
// quotation marks and escapes.
func jsonValue(rng *rand.Rand, texts []string, depth int) any {
	str := func() string {
		pieces := []string{"password", "token=", "api_key:", "'", "\"", "\\", "\n", " ", "=", ":", ",", "x", "é", "<", "&", "hunter2x", "{", "}",
			ghToken, "Bearer ", awsKey, "://u:", "@h", "-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj", "-----END PRIVATE KEY-----"}
		var b strings.Builder
		for range rng.IntN(6) {
			if rng.IntN(8) == 0 {
				b.WriteString(texts[rng.IntN(len(texts))])
			} else {
				b.WriteString(pieces[rng.IntN(len(pieces))])
			}
		}
		return b.String()
	}
	switch n := rng.IntN(10); {
	case n < 5 || depth > 3:
		return str()
	case n < 6:
		return rng.Float64() * 1e9
	case n < 7:
		return []any{nil, true, false}[rng.IntN(3)]
	case n < 8:
		inner, err := json.Marshal(jsonValue(rng, texts, depth+1))
		if err != nil {
			panic(err)
		}
		return string(inner)
	case n < 9:
		list := make([]any, rng.IntN(4))
		for i := range list {
			list[i] = jsonValue(rng, texts, depth+1)
		}
		return list
	default:
		m := map[string]any{}
		for range rng.IntN(4) {
			m[[]string{"password", "name", "value", "token", "Authorization", str()}[rng.IntN(6)]] = jsonValue(rng, texts, depth+1)
		}
		return m
	}
}

func TestProperties(t *testing.T) {
	r := New(Options{Secrets: []string{"known-secret-value"}})
	rng := rand.New(rand.NewPCG(9, 10))
	texts := sampleTexts(rng, 1)
	for _, s := range texts {
		checkText(t, r, s)
	}
	for range 5_000 {
		v := jsonValue(rng, texts, 0)
		for _, indent := range []string{"", "\t"} {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(rng.IntN(2) == 0)
			enc.SetIndent("", indent)
			if err := enc.Encode(v); err != nil {
				t.Fatal(err)
			}
			checkText(t, r, b.String())
		}
	}
}

// TestMixtures puts pieces together that matchers have to tell apart, and cuts
// them up again.
func TestMixtures(t *testing.T) {
	r := New(Options{Secrets: []string{"known-secret-value"}})
	rng := rand.New(rand.NewPCG(21, 22))
	pieces := []string{"password", "token", "api_key", "Authorization", "Cookie", "=", ":", " = ", ": ", "\"", "'", "\\\"", "\\", "\\n", "\n", " ", ",", ";", "&", "\u003c",
		"hunter2x", ghToken, awsID, awsKey, skToken, jwt, "known-secret-value", "known-secret", "Bearer ", "Basic ", "dXNlcjpodW50ZXIy", "https://u:", "p4ss", "@h/", "é", "€", "\xff",
		"-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj", "-----END PRIVATE KEY-----", "[REDACTED]", "[REDA", "x", "_", "-", ".", "0", "is ", "--", "<", ">", "|", "sk-", "eyJ", "AKIA",
		"letmein", "horsebattery", "Fluffy", "db_password", "passphrase", "secret", "auth", "Set(\"", "(", ")", "{", "}", "[", "string", "mysql", "sshpass", " -p", "curl -u a:", "value=", ":=", "==", "\n  ", "#", "?", "&", "1987"}
	for range 20_000 {
		var b strings.Builder
		for range 1 + rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		s := b.String()
		checkText(t, r, s)
		want, _ := r.String(s)
		var cuts []int
		for at := 0; at < len(s); at += 1 + rng.IntN(1+rng.IntN(20)) {
			cuts = append(cuts, at)
		}
		if got, _ := cutUp(t, r, s, cuts); got != want {
			t.Fatalf("%q cut at %v\n got %q\nwant %q", s, cuts, got, want)
		}
	}
}

// TestValueAgreesWithString checks that looking at decoded JSON hides at
// least what looking at its text does.
func TestValueAgreesWithString(t *testing.T) {
	r := New(Options{})
	rng := rand.New(rand.NewPCG(11, 12))
	all := append(familySecrets(), keyedSecrets()...)
	for _, k := range all {
		for range 5 {
			token := k.make(rng)
			key := k.key
			if key == "" {
				key = "value"
			}
			secret := token
			if k.bare != nil {
				secret = k.bare(token)
			}
			in := map[string]any{"a": []any{map[string]any{key: token, "n": 1.5}, token}}
			if k.key != "" {
				in = map[string]any{"a": map[string]any{key: token, "n": 1.5}}
			}
			before := fmt.Sprint(in)
			text, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := r.Value(in)
			if fmt.Sprint(in) != before {
				t.Fatalf("%s: the input was changed", k.name)
			}
			if _, hits := r.String(string(text)); hits > 0 && leaks(fmt.Sprint(out), secret) {
				t.Errorf("%s: %v", k.name, out)
			}
		}
	}
}

func FuzzString(f *testing.F) {
	for i, s := range sampleTexts(rand.New(rand.NewPCG(13, 14)), 1) {
		if i%17 == 0 && len(s) < 300 {
			f.Add(s)
		}
	}
	for _, s := range []string{"", `["password:", "abc"]`, `{"a":"password='x","b":"y'"}`, `"\npm_0123456789abcdefghijABCDEFGHIJ012345"`,
		`{"password":"\\\"a1b2c3\\"}`, "password=a\\u0026b1c2d3", "token=1a2b3c\\u00", "pwd=a1\\u", "\xff\xfe password=\xffx1y2z3"} {
		f.Add(s)
	}
	r := New(Options{Secrets: []string{"known-secret-value"}})
	f.Fuzz(func(t *testing.T, s string) { checkText(t, r, s) })
}

func FuzzStream(f *testing.F) {
	for i, s := range sampleTexts(rand.New(rand.NewPCG(15, 16)), 1) {
		if i%17 == 0 && len(s) < 300 {
			f.Add(s, uint64(i))
		}
	}
	r := New(Options{Secrets: []string{"known-secret-value"}})
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		want, _ := r.String(s)
		rng := rand.New(rand.NewPCG(seed, 1))
		var cuts []int
		for at := 0; at < len(s); at += 1 + rng.IntN(1+rng.IntN(40)) {
			cuts = append(cuts, at)
		}
		if got, _ := cutUp(t, r, s, cuts); got != want {
			t.Fatalf("%q cut at %v\n got %q\nwant %q", s, cuts, got, want)
		}
	})
}

func FuzzValue(f *testing.F) {
	f.Add([]byte(`{"password":"hunter2","a":["{\"token\":\"a1b2c3d4e5f6\"}"]}`))
	f.Add([]byte(`{"env":[{"name":"DB_PASSWORD","value":"hunter2"}],"Authorization":"Bearer abc123def456"}`))
	r := New(Options{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		if json.Unmarshal(data, &v) != nil {
			return
		}
		before := fmt.Sprintf("%#v", v)
		once, _ := r.Value(v)
		if fmt.Sprintf("%#v", v) != before {
			t.Fatal("the input was changed")
		}
		if twice, hits := r.Value(once); hits > 0 || !reflect.DeepEqual(once, twice) {
			t.Fatalf("not idempotent: %v became %v, then %v", v, once, twice)
		}
	})
}
