package shell

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Host is where an address leads.
type Host struct {
	Name   string // lower case, no final dot; an IP address in its usual form, IPv6 without brackets
	Port   int    // 0 if neither given nor known from the scheme
	Scheme string // lower case; empty if the address has none
}

var defaultPorts = map[string]int{
	"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21, "ftps": 990, "ssh": 22, "sftp": 22, "scp": 22, "git": 9418, "rsync": 873,
	"git+ssh": 22, "ssh+git": 22, "svn+ssh": 22, "git+https": 443, "git+http": 80, "svn": 3690, "ldap": 389, "ldaps": 636, "telnet": 23, "gopher": 70,
	"socks": 1080, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080,
}

// ParseHost returns the host of a URL, of host[:port][/path], or of
// [user@]host:path as ssh and git write it. Addresses that programs are known
// to read differently are errors: backslashes, white space, several @, an IPv4
// address in another notation than the usual one, names that are not ASCII.
func ParseHost(raw string) (Host, error) {
	bad := func(why string) (Host, error) {
		return Host{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "the address " + text.Quote(raw, 200) + " " + why}
	}
	if why := oddCharacters(raw); why != "" {
		return bad(why)
	}
	scheme, rest, isURL := strings.Cut(raw, "://")
	switch {
	case isURL && !isScheme(scheme):
		// The scheme is that of another address inside this one: evil.com/?u=http://x
		scheme, rest, isURL = "", raw, false
	case isURL:
		scheme = strings.ToLower(scheme)
		if scheme == "file" {
			return bad("names a file")
		}
	default:
		scheme, rest = "", raw
	}
	if !isURL {
		var why string
		if scheme, rest, why = withoutScheme(raw); why != "" {
			return bad(why)
		}
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
		// Some programs look for the @ before they look for the ? or #.
		if tail := rest[end:]; tail[0] != '/' && strings.Contains(strings.SplitN(tail, "/", 2)[0], "@") {
			return bad("has an @ behind its host, which programs read differently")
		}
	}
	user, hostPort, hasUser := strings.Cut(authority, "@")
	if !hasUser {
		hostPort = authority
	}
	switch {
	case authority == "" || hostPort == "":
		return bad("has no host")
	case strings.Contains(hostPort, "@"):
		return bad("has more than one @")
	case hasUser && strings.ContainsAny(user, "[]<>\"^`{|}"):
		return bad("has a user name with characters that programs read differently")
	}
	name, port, why := splitPort(hostPort)
	if why == "" {
		name, why = hostName(name)
	}
	if why != "" {
		return bad(why)
	}
	h := Host{Name: name, Scheme: scheme, Port: defaultPorts[scheme]}
	if port == "" {
		return h, nil
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 || port[0] == '0' || port[0] == '+' || port[0] == '-' {
		return bad("has a port that is not one")
	}
	h.Port = n
	return h, nil
}

func oddCharacters(raw string) string {
	if raw == "" {
		return "is empty"
	}
	if len(raw) > 8192 {
		return "is too long"
	}
	before := raw // what is behind a query may be anything visible
	if i := strings.IndexAny(raw, "?#"); i >= 0 {
		before = raw[:i]
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] == 0x7f {
			return "contains white space or a control character"
		}
	}
	if strings.Contains(before, `\`) {
		return "contains a backslash, which some programs take for a slash"
	}
	return ""
}

// withoutScheme reads the forms that have no "://". The part behind a colon
// that is no port is a path of ssh.
func withoutScheme(raw string) (scheme, rest, why string) {
	if strings.HasPrefix(raw, "//") {
		if strings.HasPrefix(raw, "///") {
			return "", "", "has no host"
		}
		return "", raw[2:], ""
	}
	if strings.HasPrefix(raw, "[") {
		return "", raw, ""
	}
	colon := strings.IndexByte(raw, ':')
	slash := strings.IndexAny(raw, "/?#")
	if colon < 0 || slash >= 0 && slash < colon {
		return "", raw, ""
	}
	before, after := raw[:colon], raw[colon+1:]
	switch strings.ToLower(before) {
	case "http", "https", "ftp", "ftps", "ws", "wss":
		return "", "", "lacks the slashes behind its scheme, which programs read differently"
	case "mailto", "data", "javascript", "file", "tel", "urn", "about", "blob", "view-source":
		return "", "", "has no host"
	}
	digits := after
	if end := strings.IndexAny(after, "/?#"); end >= 0 {
		digits = after[:end]
	}
	if strings.Trim(digits, "0123456789") == "" {
		return "", raw, ""
	}
	if at := strings.IndexByte(after, '@'); at >= 0 && !strings.Contains(before, "@") && (slash < 0 || at < slash-colon-1) {
		return "", raw, "" // user:password@host
	}
	return "ssh", before, ""
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// splitPort takes the port off; an empty one counts as none.
func splitPort(hostPort string) (host, port, why string) {
	if strings.HasPrefix(hostPort, "[") {
		end := strings.IndexByte(hostPort, ']')
		if end < 0 {
			return "", "", "has a bracket that is not closed"
		}
		host, after := hostPort[:end+1], hostPort[end+1:]
		if after != "" && after[0] != ':' {
			return "", "", "has text behind its IPv6 address"
		}
		return host, strings.TrimPrefix(after, ":"), ""
	}
	host, port, _ = strings.Cut(hostPort, ":")
	if strings.Contains(port, ":") {
		return "", "", "has more than one colon; an IPv6 address needs brackets"
	}
	return host, port, ""
}

func hostName(name string) (normal, why string) {
	if strings.HasPrefix(name, "[") {
		addr, err := netip.ParseAddr(name[1 : len(name)-1])
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", "has brackets around what is no IPv6 address"
		}
		return addr.Unmap().String(), ""
	}
	for i := range len(name) {
		if name[i] >= 0x80 {
			return "", "has a host name that is not ASCII; write it as xn--…"
		}
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "" || len(name) > 253 {
		return "", "has no host"
	}
	labels := strings.Split(name, ".")
	if last := labels[len(labels)-1]; isNumber(last) {
		addr, err := netip.ParseAddr(name)
		if err != nil {
			return "", "has an IP address in a notation that programs read differently"
		}
		return addr.String(), ""
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return "", "has a host name that is not one"
		}
		for i := range len(l) {
			if c := l[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", "has a host name that is not one"
			}
		}
	}
	return name, ""
}

// isNumber reports a last label that makes programs take the whole name for an
// IPv4 address.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}
