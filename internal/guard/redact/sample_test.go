package redact

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"strings"
)

// sample is a secret in a context.
type sample struct {
	context string
	text    string
	secret  string // no part of it of any length may be left
}

// kindOfSecret makes samples of one family. The secrets of most families are
// made from their published form; the name under which they are stored says
// nothing, so that the form alone must tell.
type kindOfSecret struct {
	name  string
	key   string // "" for a name that says nothing
	make  func(r *rand.Rand) string
	bare  func(token string) string // the part of what make returns that is secret
	extra []func(secret string) sample
	// lone is set if the secret is found by its form wherever it stands.
	lone bool
}

const (
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	numerals = "0123456789"
	letters  = lowers + uppers
	specials = "!@#%^*-_+=.?"
)

func pick(r *rand.Rand, from string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[r.IntN(len(from))]
	}
	return string(b)
}

// fromExpr returns a random text that the regular expression matches.
func fromExpr(r *rand.Rand, expr string) string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	writeExpr(r, re, &b)
	return b.String()
}

func writeExpr(r *rand.Rand, re *syntax.Regexp, b *strings.Builder) {
	times := func(least, most int) {
		if most < 0 {
			most = least + 12
		}
		for range least + r.IntN(most-least+1) {
			writeExpr(r, re.Sub[0], b)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		var all []rune
		for i := 0; i < len(re.Rune); i += 2 {
			for c := re.Rune[i]; c <= re.Rune[i+1]; c++ {
				all = append(all, c)
			}
		}
		b.WriteRune(all[r.IntN(len(all))])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			writeExpr(r, sub, b)
		}
	case syntax.OpCapture:
		writeExpr(r, re.Sub[0], b)
	case syntax.OpAlternate:
		writeExpr(r, re.Sub[r.IntN(len(re.Sub))], b)
	case syntax.OpRepeat:
		times(re.Min, re.Max)
	case syntax.OpPlus:
		times(1, -1)
	case syntax.OpStar:
		times(0, -1)
	case syntax.OpQuest:
		times(0, 1)
	case syntax.OpEmptyMatch:
	default:
		panic(fmt.Sprintf("cannot make a sample of %v", re))
	}
}

// heads are what must stand before tokens that do not begin with their prefix.
var heads = map[string]func(r *rand.Rand) string{
	"telegram":      func(r *rand.Rand) string { return pick(r, numerals, 9) },
	"azure-client":  func(r *rand.Rand) string { return pick(r, letters, 3) + pick(r, numerals, 1) },
	"terraform":     func(r *rand.Rand) string { return pick(r, letters+numerals, 14) },
	"teams-webhook": func(r *rand.Rand) string { return "https://" + pick(r, lowers, 8) },
}

var urlEscaper = strings.NewReplacer("#", "%23", "%", "%25", "+", "%2B")

// contexts puts a token where secrets are found; secret is the part of it that
// must not be left.
func contexts(key, token, secret string) []sample {
	upper := strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(key))
	quoted, err := json.Marshal(token)
	if err != nil {
		panic(err)
	}
	nested, err := json.Marshal(fmt.Sprintf(`{"a":1,"%s":%s}`, key, quoted))
	if err != nil {
		panic(err)
	}
	return []sample{
		{"env", "HOME=/root\n" + upper + "=" + token + "\nLANG=C\n", secret},
		{"json", fmt.Sprintf(`{"host": "db1", "%s": %s, "port": 5432}`, key, quoted), secret},
		{"json in json", fmt.Sprintf(`{"stdout": %s, "code": 0}`, nested), secret},
		{"yaml", "server:\n  " + key + ": " + token + "\n  port: 80\n", secret},
		{"yaml quoted", "server:\n  " + key + ": '" + token + "'\n", secret},
		{"shell", "export " + upper + "=\"" + token + "\" && ./deploy.sh\n", secret},
		{"source", "const " + key + " = \"" + token + "\";\n", secret},
		{"url", "GET https://api.example.com/v1/items?page=2&" + key + "=" + urlEscaper.Replace(token) + "&x=1 HTTP/1.1", urlEscaper.Replace(secret)},
		{"prose", "I think the " + strings.ReplaceAll(key, "_", " ") + " is " + token + ", please do not share it.", secret},
		{"ini", "[default]\n" + key + " = " + token + "\nregion = eu-west-1\n", secret},
	}
}

// loneContexts hold nothing that would tell a secret but its form.
func loneContexts(token, secret string) []sample {
	all := contexts("value", token, secret)
	return append(all,
		sample{"log", "2026-01-02T03:04:05Z INFO got " + token + " from vault", secret},
		sample{"list", "a," + token + ",b", secret},
		sample{"colour", "\x1b[31m" + token + "\x1b[0m", secret},
		sample{"escape", `{"out":"first\n` + token + `\tsecond"}`, secret},
		sample{"markdown", "Use `" + token + "` here.", secret},
		sample{"diff", "-old\n+" + token + "\n", secret},
	)
}

// familySecrets has a generator for each family of tokens.
func familySecrets() []kindOfSecret {
	var all []kindOfSecret
	for _, f := range families() {
		prefixes := strings.Fields(f.prefixes)
		var secret []*regexp.Regexp
		for _, prefix := range prefixes {
			if re := regexp.MustCompile(regexp.QuoteMeta(prefix) + f.body); re.NumSubexp() > 0 || heads[f.name] != nil {
				secret = append(secret, re)
			}
		}
		bare := func(token string) string {
			for _, re := range secret {
				if m := re.FindStringSubmatch(token); m != nil {
					return m[len(m)-1]
				}
			}
			return token
		}
		all = append(all, kindOfSecret{name: f.name, lone: true, bare: bare, make: func(r *rand.Rand) string {
			head := ""
			if h := heads[f.name]; h != nil {
				head = h(r)
			}
			return head + fromExpr(r, regexp.QuoteMeta(prefixes[r.IntN(len(prefixes))])+f.body)
		}})
	}
	return all
}
