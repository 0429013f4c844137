package redact

import "strings"

// userinfo matches the password in scheme://user:password@host, and a user
// name that is itself a token. User and host stay.
type userinfo struct{}

var userStop = classOf(" \t\r\n\"'`<>\\/?#\x00,;(){}|")

func (userinfo) match(sc *scan, _, end int) {
	colon, at := -1, -1
	p := end
	for ; p-end < maxValue && !userStop[sc.at(p)]; p++ {
		switch sc.at(p) {
		case ':':
			if colon < 0 {
				colon = p
			}
		case '@':
			at = p
		case '[': // an IPv6 host, or a marker
			if at < 0 {
				return
			}
		}
	}
	if sc.short || at < 0 || !alnum[sc.at(at+1)] && sc.at(at+1) != '[' && sc.at(at+1) != '%' && sc.at(at+1) != '$' {
		return
	}
	from := colon + 1
	if colon < 0 || colon > at {
		if from = end; !generated(sc.s[end:at]) {
			return
		}
	}
	if v := sc.s[from:at]; v != "" && !endsInMarker(v) && !template(v) {
		sc.add(from, at, nil)
	}
}

// template reports whether a password in a URL is to be filled in.
func template(v string) bool {
	inner := v[1:]
	switch v[0] {
	case '$':
		return identifier(inner)
	case '%':
		return len(v) < 3 || strings.HasSuffix(v, "%")
	}
	return strings.Trim(v, v[:1]) == "" && len(v) > 2
}

// program reports whether the name of a program stands on the line before the
// option at p. A marker in between may have been a secret of any length, which
// the name could not be seen behind.
func (sc *scan) program(name string, p int) bool {
	line := sc.s[sc.floor:p]
	line = line[strings.LastIndexByte(line, '\n')+1:]
	at := strings.LastIndex(line, name)
	return at >= 0 && !strings.Contains(line[at:], Marker)
}

// passwordOption matches the password after -p of MySQL's programs and sshpass.
// Others mean something else by it.
type passwordOption struct{}

func (passwordOption) match(sc *scan, start, end int) {
	apart := sc.program("sshpass", start)
	switch {
	case sc.s[end-1] != 'p', !apart && !sc.program("mysql", start) && !sc.program("mariadb", start):
		return
	case apart && sc.at(end) == ' ':
		end++
	}
	sc.value(&place{kind: kindPassword, flag: true}, end)
}

// curlUser matches the password after curl's -u and --user.
type curlUser struct{}

func (curlUser) match(sc *scan, start, end int) {
	if !sc.program("curl", start) {
		return
	}
	p := end
	if c := sc.at(p); c != ' ' && c != '=' {
		return
	}
	mark, _, p := sc.quote(p + 1)
	q := p
	for q-p < 64 && !userStop[sc.at(q)] && sc.at(q) != ':' {
		q++
	}
	if sc.at(q) != ':' {
		return
	}
	at := place{kind: kindPassword, flag: true, quoted: mark != 0}
	to, whole := sc.bareEnd(&at, q+1)
	v := sc.s[q+1 : to]
	if !sc.short && whole && len(v) >= 4 && !endsInMarker(v) && !placeholder(v) {
		sc.add(q+1, to, nil)
	}
}
