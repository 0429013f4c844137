package redact

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// secret decides about a value. What looks generated is taken for a secret
// under any of the names. A literal is one if the name says secret. A bare value
// may also be a variable, a type or a word of a sentence, so it must look like a
// secret unless its surroundings say that it is a literal.
func secret(at *place, v string) bool {
	if v = withoutEscapes(v); len(v) < 4 {
		return false
	}
	if generated(v) && !strings.ContainsAny(v, " ()[]{}<>$`") {
		if at.loose && (len(v) < 20 || count(v).digit < 2) {
			return false
		}
		return !hostOrPath(v) && (at.quoted || at.env || !selfNamed(v))
	}
	if at.kind == kindKey || at.loose || placeholder(v) || hostOrPath(v) {
		return false
	}
	if strings.ContainsAny(v, " \t") {
		return (at.quoted || at.phrase && at.literal) && phrase(at, v)
	}
	if !at.quoted && code(at, v) {
		return false
	}
	c := count(v)
	switch {
	case at.kind == kindAuth:
		name := version(v) || strings.Contains(v, "-") && wordy(v) // as in scram-sha-256
		return !at.prose && !at.call && !name && (len(v) >= 6 && c.digit > 0 && c.letters() > 0 || len(v) >= 16 && varied(v) && !wordy(v)) ||
			at.scheme && (at.quoted || at.literal) && chosen(at, v, c)
	case at.quoted || at.literal || at.xml:
		return chosen(at, v, c)
	case at.kind == kindPassword:
		return passwordLike(at, v, c)
	}
	return len(v) >= 8 && (!at.prose || len(v) >= 12) && c.digit > 0 && c.letters() > 0 && spread(v) && !wordy(v)
}

// chosen decides about a literal under a name that says secret. It is one,
// whatever it looks like, unless it is a name itself, the label of a field, a
// count or a version.
func chosen(at *place, v string, c counts) bool {
	least := 6
	if at.kind == kindPassword {
		least = 4
	}
	bare := strings.TrimRight(v, ":.!?*")
	switch {
	case len(bare) < least, len(bare) < len(v) && placeholder(bare), nameOf(at, v, c):
		return false
	case c.letters() == 0 && at.kind == kindPassword:
		return c.digit > 0
	case c.letters() == 0 && at.kind == kindToken: // a count, unless it is long
		return c.digit == len(v) && c.digit >= 8 && (at.quoted || !at.colon)
	case c.letters() == 0:
		return c.digit >= 6 && !version(v)
	case c.digit == 0 && strings.IndexFunc(v, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0:
		return false // a label in another language
	}
	return !version(v) && (!at.pass || !at.colon || at.quoted || c.digit > 0) // PASS: is the word of many a test runner
}

// nameOf reports whether a value is the name of something: a field, a header, a
// file, a text to be looked up.
func nameOf(at *place, v string, c counts) bool {
	words := splitName(v)
	noun := wordy(v) && slices.ContainsFunc(words, func(w string) bool { return secretNouns[w] })
	switch {
	case c.digit > 1:
		return noun && len(words) > 1 && identifier(v)
	case c.lower == 0 && slices.ContainsFunc(nounEndings, func(end string) bool { return strings.HasSuffix(v, end) }):
		return true
	case at.flag || at.upper:
		return noun && identifier(v) && strings.Contains(v, ".")
	case at.compared && at.kind == kindToken, at.call && !at.joined:
		return noun || c.digit == 0 // token == "comma"
	case strings.ContainsAny(v, "/:") && wordy(v):
		return true
	case !at.quoted && (at.scheme || !at.colon && !at.spaced) && strings.Contains(v, "-"):
		return false
	}
	return noun || strings.Contains(v, ".") && identifier(v)
}

// phrase reports whether several words are a secret rather than a sentence or a
// label, which begin with a capital or have ordinary words in them.
func phrase(at *place, v string) bool {
	if isUpper(v[0]) {
		return false
	}
	if at.phrase && at.quoted && len(v) >= 12 {
		return true
	}
	words := strings.Fields(v)
	return at.kind != kindToken && at.kind != kindAuth && len(words) < 6 && !slices.ContainsFunc(words, func(w string) bool {
		return !plainWord(w) || placeholder(w) || secretNouns[strings.ToLower(w)]
	})
}

func plainWord(s string) bool {
	for i := range len(s) {
		if !alnum[s[i]] {
			return false
		}
	}
	return true
}

// version reports whether v is that of a program, as in a list of packages.
func version(v string) bool {
	v = strings.TrimLeft(v, "^~<>=v")
	major, rest, ok := strings.Cut(v, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return ok && number(major) && number(minor)
}

func number(s string) bool { return s != "" && len(s) < 4 && strings.Trim(s, "0123456789") == "" }

// selfNamed reports whether a bare value is the name of a variable or type
// that has to do with secrets, or a number in hexadecimal.
func selfNamed(v string) bool {
	if v = strings.TrimLeft(v, "*&!@-"); !identifier(v) {
		return len(v) < 34 && strings.HasPrefix(v, "0x")
	}
	for _, w := range splitName(v) {
		if secretNouns[w] {
			return true
		}
	}
	return count(v).digit == 0
}

var secretNouns = setOf("auth key keys password passwd secret secrets token tokens cred creds credential credentials cert certificate")

var nounEndings = strings.Fields("TOKEN KEY SECRET PASSWORD PASS PWD HERE")

// withoutEscapes drops the escaped characters of JSON and source code, whose
// digits say nothing.
func withoutEscapes(v string) string {
	if !strings.Contains(v, `\`) {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] == '\\' && i+1 < len(v) {
			switch v[i+1] {
			case 'u':
				i += 5
				continue
			case 'x':
				i += 3
				continue
			}
		}
		b.WriteByte(v[i])
	}
	return b.String()
}

func passwordLike(at *place, v string, c counts) bool {
	low := strings.ToLower(v)
	names := strings.Contains(low, "passw") || strings.Contains(low, "secret") || strings.Contains(low, "credential")
	special := len(strings.Trim(v, "-_./:")) > 0 && strings.ContainsAny(v, "!@#$%^&*+=~?\\|") // not what joins words
	switch {
	case at.prose:
		return len(v) >= 6 && kinds(c, special) >= 3
	case at.pass && at.colon && !at.quoted:
		return special && c.digit > 0 // PASS: is the word of many a test runner
	case c.digit == 0 && !special:
		return false
	default:
		return len(v) >= 6 && (c.letters() > 0 || at.colon || !at.spaced) && !names
	}
}

// kinds counts the kinds of characters in a value.
func kinds(c counts, special bool) int {
	n := 0
	for _, has := range []bool{c.lower > 0, c.upper > 0, c.digit > 0, special} {
		if has {
			n++
		}
	}
	return n
}

// hostOrPath reports whether v is a path or URL rather than a value.
func hostOrPath(v string) bool {
	if v[0] == '/' || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") || strings.HasPrefix(v, "~/") || strings.HasPrefix(v, "#/") {
		return !generated(strings.ReplaceAll(v, "/", ""))
	}
	// A number before :// is that of a line whose base64 begins with slashes.
	scheme, _, found := strings.Cut(v, "://")
	return found && strings.Trim(scheme, "0123456789") != "" || strings.HasPrefix(v, "arn:") || strings.Contains(v, `:\\`)
}

// code reports whether a bare value is an expression of a program rather
// than a literal.
func code(at *place, v string) bool {
	if strings.HasPrefix(strings.TrimLeft(v, "+-"), "0x") && len(v) < 34 || at.next == '(' || at.next == '[' || at.next == '{' || strings.ContainsAny(v, "()[]{}") {
		return true
	}
	if at.env || at.xml || at.flag || at.prose {
		return strings.Contains(v, "::") || strings.Contains(v, "->")
	}
	switch v[0] {
	case '*', '&', '!', '@', '+', '-', '.', '=':
		return identifier(v[1:]) && (count(v).digit == 0 || selfNamed(v))
	}
	if strings.Contains(v, "->") || strings.Contains(v, "::") || at.kind != kindPassword && strings.Contains(strings.TrimRight(v, "="), "=") {
		return true
	}
	if at.literal || !identifier(v) {
		return false
	}
	// A name. In a program it is a variable if an operator, a separator or a
	// bracket follows, or if it is spaced as programs are.
	if strings.Contains(v, ".") || at.kind != kindPassword {
		return wordy(v)
	}
	switch at.next {
	case ',', ')', ';', ']', '}':
		return at.colon || at.spaced
	}
	return false
}
