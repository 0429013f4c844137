package redact

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestShapesAgreeWithRegexp compares shapes with package regexp on samples and
// on samples that have been damaged.
func TestShapesAgreeWithRegexp(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for _, f := range families() {
		for prefix := range strings.FieldsSeq(f.prefixes) {
			expr := regexp.QuoteMeta(prefix) + f.body
			sh := compileShape(expr)
			// What matches is the same but for %, which stands for what URLs
			// escape, and for the end of the match, which is a matter of taste.
			re := regexp.MustCompile(`^` + expr)
			for range 40 {
				s := fromExpr(rng, expr)
				if rng.IntN(2) == 0 {
					b := []byte(s)
					b[rng.IntN(len(b))] = "aZ0-_. $"[rng.IntN(8)]
					s = string(b)
				}
				s += " "
				loc := re.FindStringIndex(s)
				_, to, ok := sh.match(&text{s: s, final: true}, 0)
				switch {
				case ok && loc == nil:
					t.Errorf("%s: the shape matches %q", f.name, s)
				case !ok && loc != nil && (sh.tail != nil || !word[s[loc[1]]]):
					t.Errorf("%s: the shape does not match %q", f.name, s)
				case ok && to > loc[1]:
					t.Errorf("%s: the shape takes %q of %q", f.name, s[:to], s)
				}
			}
		}
	}
}

// TestShapesNeedMore checks that a shape says so when the text is too short
// to tell.
func TestShapesNeedMore(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for _, f := range families() {
		prefix := strings.Fields(f.prefixes)[0]
		sh := compileShape(regexp.QuoteMeta(prefix) + f.body)
		s := fromExpr(rng, regexp.QuoteMeta(prefix)+f.body)
		for n := len(prefix); n < len(s); n++ {
			part := &text{s: s[:n]}
			if _, _, ok := sh.match(part, 0); !ok && !part.short {
				t.Errorf("%s: gave up on %q", f.name, s[:n])
			}
		}
	}
}

func TestBadShapes(t *testing.T) {
	for _, expr := range []string{"ab|cd", "a[0-9]+b", "(", "a.*"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", expr)
				}
			}()
			compileShape(expr)
		}()
	}
}

func TestAutomaton(t *testing.T) {
	words := []string{"he", "she", "his", "hers", "ers", "s"}
	a := newAutomaton(words)
	const text = "uSHErs hishe"
	found := map[string]int{}
	state := uint16(0)
	for i := range len(text) {
		state = a.next[int(state)*a.width+int(a.class[text[i]])]
		if state >= a.accept {
			for _, id := range a.ends[state-a.accept] {
				if got := strings.ToLower(text[i+1-a.lens[id] : i+1]); got != words[id] {
					t.Errorf("%q reported as %q", got, words[id])
				}
				found[words[id]]++
			}
		}
	}
	for _, w := range words {
		if want := overlapping(strings.ToLower(text), w); found[w] != want {
			t.Errorf("%q found %d times, want %d", w, found[w], want)
		}
	}
	if newAutomaton(nil) != nil {
		t.Error("an automaton of nothing")
	}
}

// in looks at two halves at once; what it finds does not depend on where that
// cuts a word.
func TestAutomatonIn(t *testing.T) {
	words := []string{"he", "hers", "abcabd", "q"}
	a := newAutomaton(words)
	for _, piece := range append(words, "HERS", "abcabcabd", "h", "ab", "her", "") {
		for before := range 9 {
			for after := range 9 {
				text := strings.Repeat("x", before) + piece + strings.Repeat("x", after)
				want := slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(text), w) })
				if got := a.in(text); got != want {
					t.Errorf("%q: %t", text, got)
				}
			}
		}
	}
}

func overlapping(s, w string) int {
	n := 0
	for i := range len(s) {
		if strings.HasPrefix(s[i:], w) {
			n++
		}
	}
	return n
}

func TestClassify(t *testing.T) {
	for name, want := range map[string]kind{
		"password": kindPassword, "DB_PASSWORD": kindPassword, "dbPassword": kindPassword, "MYSQL_PWD": kindPassword, "spring.datasource.password": kindPassword,
		"PGPASSWORD": kindPassword, "smtp_pass": kindPassword, "passphrase": kindPassword, "PASSWORD_PROD": kindPassword, "password2": kindPassword,
		"bypass": kindNone, "password_hash": kindNone, "passwordLength": kindNone, "compass": kindNone,
		"token": kindToken, "accessToken": kindToken, "GITHUB_TOKEN": kindToken, "id-token": kindToken, "client_secret": kindSecret, "next_page_token": kindNone,
		"tokens": kindNone, "max_tokens": kindNone, "tokenizer": kindNone, "token_type": kindNone, "secretName": kindNone,
		"api_key": kindSecret, "apiKey": kindSecret, "APIKEY": kindSecret, "x-api-key": kindSecret, "aws_secret_access_key": kindSecret, "SECRETACCESSKEY": kindSecret,
		"key": kindNone, "primary_key": kindNone, "public_key": kindNone, "monkey": kindNone, "GITHUB_PAT": kindKey, "path": kindNone,
		"Authorization": kindAuth, "Proxy-Authorization": kindAuth, "author": kindNone, "Set-Cookie": kindCookie,
		"datadog_key": kindKey, "DATADOG_SITE": kindNone, "cloudflare_zone_id": kindNone, "": kindNone, "___": kindNone,
	} {
		if got := classify(name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}
