package redact

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

var tokenSet = classOf("0-9A-Za-z._~+/=:-")

const maxCookies = 512

// bearer matches "Bearer" with its token, wherever it stands.
type bearer struct{}

func (bearer) match(sc *scan, start, end int) {
	p := sc.credentials(start, end)
	if p == 0 {
		return
	}
	n := 0
	for n < 64 && tokenSet[sc.at(p+n)] {
		n++
	}
	v := sc.s[p : p+n]
	if !sc.short && n >= 12 && varied(v) && !wordy(v) {
		sc.add(p, p+n, tokenSet.plus(word))
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
	n := 0
	for n < maxValue && base64Set[sc.at(p+n)] && sc.at(p+n) != '=' {
		n++
	}
	if sc.short || n < 6 {
		return
	}
	plain, err := base64.RawStdEncoding.DecodeString(sc.s[p : p+n/4*4])
	if err == nil && strings.Contains(string(plain), ":") && printable(plain) {
		sc.add(p, p+n, base64Set.plus(word))
	}
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
// whose value begins at p. Basic ones are left to their own matcher.
func (sc *scan) skipScheme(p int) int {
	_, _, q := sc.quote(p)
	word := q
	for q-word < 24 && (alnum[sc.at(q)] || sc.at(q) == '-') {
		q++
	}
	if q == word || sc.at(q) != ' ' {
		return p
	}
	return sc.blank(q, false)
}

// cookies adds the values of a Cookie header that look generated.
func (sc *scan) cookies(p int) {
	_, _, p = sc.quote(p)
	for start := p; p-start < maxCookies; {
		p = sc.blank(p, false)
		for p-start < maxCookies && (isNameByte(sc.at(p)) || sc.at(p) == '%') {
			p++
		}
		if sc.at(p) != '=' {
			return
		}
		from := p + 1
		for p = from; p-from < maxValue && cookieSet[sc.at(p)]; {
			p++
		}
		if v := sc.s[from:p]; len(v) > 0 && !sc.short && generated(v) {
			sc.add(from, p, cookieSet)
		}
		if sc.at(p) != ';' {
			return
		}
		p++
	}
}

var cookieSet = tokenSet.plus(classOf("%!#$&'()*@|"))
