package redact

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

var (
	tokenSet   = classOf("0-9A-Za-z._~+/=:-")
	bearerTail = tokenSet.plus(word)
	unpadded   = classOf("0-9A-Za-z+/")
	basicTail  = base64Set.plus(word)
)

const maxCookies = 512

// bearer matches "Bearer" with its token, wherever it stands.
type bearer struct{}

func (bearer) match(sc *scan, start, end int) {
	p := sc.credentials(start, end)
	if p == 0 {
		return
	}
	end = sc.stretch(tokenSet, p, 64)
	v := sc.s[p:end]
	if !sc.short && len(v) >= 8 && varied(v) && !wordy(v) {
		sc.add(p, end, bearerTail)
	}
}

// basic matches "Basic" with its credentials. They are the base64 of a name,
// a colon and a password, which ordinary words after "basic" are not.
type basic struct{}

func (basic) match(sc *scan, start, end int) {
	p := sc.credentials(start, end)
	if p == 0 {
		return
	}
	end = sc.stretch(unpadded, p, maxValue)
	v := sc.s[p:end]
	if sc.short || len(v) < 6 || !namedPassword(v[:min(len(v), 24)], false) || !namedPassword(v, true) {
		return
	}
	sc.add(p, end, basicTail)
}

// namedPassword reports whether v is the base64 of a name, a colon and a
// password, or, if it is not whole, may be the beginning of that.
func namedPassword(v string, whole bool) bool {
	plain, err := base64.RawStdEncoding.DecodeString(v[:len(v)/4*4])
	return err == nil && printable(plain) && (!whole || strings.Contains(string(plain), ":"))
}

// credentials returns where the credentials of a scheme begin, or 0.
func (sc *scan) credentials(start, end int) int {
	if !sc.atBoundary(start) {
		return 0
	}
	switch {
	case sc.hasPrefix(end, "%20"):
		return end + 3
	case sc.at(end) == '+', sc.at(end) == ':':
		return end + 1
	case sc.at(end) == ' ':
		return sc.blank(end, false)
	}
	return 0
}

func printable(b []byte) bool {
	if !utf8.Valid(b[:wholeRunes(string(b), len(b))]) {
		return false
	}
	for _, c := range b {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	return true
}

// skipScheme returns where the credentials of an Authorization header begin
// whose value begins at p. In a shell the next word is something else. Basic
// ones are left to their own matcher.
func (sc *scan) skipScheme(at *place, name string, p int) int {
	mark, _, q := sc.quote(p)
	word := q
	for q-word < 24 && (alnum[sc.at(q)] || sc.at(q) == '-') {
		q++
	}
	known := schemes[strings.ToLower(sc.s[word:q])]
	if q == word || sc.at(q) != ' ' || mark == 0 && at.upper || !known && !endsIn(name, "authorization") {
		return p
	}
	at.scheme = !at.prose && !at.loose && known
	return sc.blank(q, false)
}

// schemes are those whose credentials are one word.
var schemes = setOf("bearer token basic apikey key")

// cookies adds the values of a Cookie header that look generated.
func (sc *scan) cookies(p int) {
	_, _, p = sc.quote(p)
	for start := p; p-start < maxCookies; {
		p = sc.blank(p, false)
		p = sc.stretch(cookieName, p, maxCookies)
		if sc.at(p) != '=' {
			return
		}
		from := p + 1
		p = sc.stretch(cookieSet, from, maxValue)
		if v := sc.s[from:p]; len(v) > 0 && !sc.short && (sc.nested(from) || generated(v)) {
			sc.add(from, p, cookieSet)
		}
		sc.judge(from, p)
		if sc.at(p) != ';' {
			return
		}
		// Another header may have been read up to further on.
		p = max(p+1, sc.cookiesTo)
		sc.cookiesTo = p
	}
}

var (
	cookieSet  = tokenSet.plus(classOf("%!#$&'()*@|"))
	cookieName = word.plus(classOf("%.-"))
)
