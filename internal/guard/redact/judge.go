package redact

import "strings"

// secret decides about a value. What looks generated is taken for a secret
// under any of the names; otherwise it depends on the name and the place.
func secret(at *place, v string) bool {
	if len(v) < 4 || at.kind != kindPassword && len(v) < 8 && at.kind != kindAuth {
		return false
	}
	v = withoutEscapes(v)
	if len(v) < 4 {
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
		return at.phrase && at.quoted && len(v) >= 12 && !isUpper(v[0])
	}
	if !at.quoted && code(at, v) {
		return false
	}
	c := count(v)
	switch at.kind {
	case kindPassword:
		return passwordLike(at, v, c)
	case kindNone, kindToken, kindKey, kindCookie:
	case kindAuth:
		return len(v) >= 6 && c.digit > 0 && c.letters() > 0 || len(v) >= 16 && varied(v) && !wordy(v)
	}
	if at.prose && len(v) < 12 {
		return false
	}
	return c.digit > 0 && c.letters() > 0 && spread(v) && !wordy(v)
}

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

var secretNouns = setOf("key keys password passwd secret secrets token tokens cred creds credential credentials cert certificate")

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
		// Letters alone. Labels and descriptions begin with a capital.
		return !names && len(v) >= 6 && c.other == 0 && (at.env || at.quoted && len(v) >= 8 && !isUpper(v[0])) && c.upper < 2
	case at.quoted || at.env || at.xml:
		return !names || c.digit > 1
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
	if strings.HasPrefix(v, "0x") && len(v) < 34 || at.next == '(' || at.next == '[' || at.next == '{' || strings.ContainsAny(v, "()[]{}") {
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
	if !identifier(v) {
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
