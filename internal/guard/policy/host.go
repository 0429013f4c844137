package policy

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// hostRule is a network rule: a name, a glob over names, an address or a
// range of them, or everything; each with or without a port.
type hostRule struct {
	port   int // 0 means any
	all    bool
	prefix netip.Prefix
	name   string
	below  string // *.name: .name
	glob   string // any other glob, with slashes for dots
}

func compileHost(r *Rule) error {
	p := strings.ToLower(strings.TrimSpace(r.Pattern))
	if p == "" {
		return errors.New("it names no host")
	}
	if strings.Contains(p, "://") || strings.ContainsAny(p, "@ ?#") {
		return errors.New("write a host or host:port, not a URL")
	}
	if prefix, err := netip.ParsePrefix(p); err == nil {
		if prefix != prefix.Masked() {
			return errors.New("the range has bits set beyond its length; write " + prefix.Masked().String())
		}
		r.host = &hostRule{prefix: unmapPrefix(prefix)}
		return nil
	}
	if strings.Contains(p, "/") {
		return errors.New("write a host, host:port or a range such as 10.0.0.0/8, without a path")
	}
	h := &hostRule{}
	host, port, err := splitPort(p)
	if err != nil {
		return err
	}
	h.port = port
	switch addr, err := netip.ParseAddr(host); {
	case err == nil && addr.Zone() != "":
		return errors.New("an address in a rule has no zone")
	case err == nil:
		addr = addr.Unmap()
		h.prefix = netip.PrefixFrom(addr, addr.BitLen())
	default:
		if err := h.setName(strings.TrimSuffix(host, ".")); err != nil {
			return err
		}
	}
	r.host = h
	return nil
}

func (h *hostRule) setName(name string) error {
	if name == "*" || name == "**" {
		h.all = true
		return nil
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_*") != "" {
			if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
				return errors.New("write international names in their xn-- form")
			}
			return errors.New("it is not a host name, address or range")
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return errors.New("it is not a valid address")
	}
	rest, wild := strings.CutPrefix(name, "*.")
	switch {
	case !strings.Contains(name, "*"):
		h.name = name
	case wild && !strings.Contains(rest, "*"):
		h.below = "." + rest
	default:
		h.glob = strings.ReplaceAll(name, ".", "/")
		if wild {
			h.glob = "**/" + h.glob
		}
	}
	return nil
}

// splitPort takes a port off host:port, [v6]:port and bare addresses alike.
func splitPort(p string) (string, int, error) {
	if inner, ok := strings.CutPrefix(p, "["); ok {
		host, after, closed := strings.Cut(inner, "]")
		switch {
		case !closed:
			return "", 0, errors.New("a bracket is not closed")
		case after == "":
			return host, 0, nil
		case after[0] != ':':
			return "", 0, errors.New("after the bracket there may only be :port")
		}
		port, err := parsePort(after[1:])
		return host, port, err
	}
	if strings.Count(p, ":") != 1 {
		return p, 0, nil // none, or a bare IPv6 address
	}
	host, text, _ := strings.Cut(p, ":")
	port, err := parsePort(text)
	return host, port, err
}

func parsePort(s string) (int, error) {
	if s == "*" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("the port must be a number from 1 to 65535")
	}
	return int(n), nil
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// target is a host in the form that rules look at.
type target struct {
	name string
	addr netip.Addr // valid if the name is an address
	port int
}

var errHost = errors.New("it is not a plain host name or address")

// newTarget normalises a host. It refuses what resolvers read in more than
// one way, such as 0x7f.1 or 2130706433.
func newTarget(h *Host) (target, error) {
	name := strings.ToLower(strings.TrimSuffix(h.Name, "."))
	if inner, ok := strings.CutPrefix(name, "["); ok {
		if name, ok = strings.CutSuffix(inner, "]"); !ok {
			return target{}, errHost
		}
	}
	if h.Port < 0 || h.Port > 65535 || name == "" || len(name) > 253 {
		return target{}, errHost
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return target{name: name, addr: addr.Unmap().WithZone(""), port: h.Port}, nil
	}
	label := ""
	for rest, more := name, true; more; {
		label, rest, more = strings.Cut(rest, ".")
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return target{}, errHost
		}
	}
	if isNumber(label) {
		return target{}, errHost
	}
	return target{name: name, port: h.Port}, nil
}

// isNumber reports whether a name that ends in this label is taken for an
// IPv4 address.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// allows matches a host. A rule with a port does not match an unknown port.
func (h *hostRule) allows(t *target) bool {
	return (h.port == 0 || h.port == t.port) && h.matches(t)
}

// denies matches a host more widely: also at an unknown port, and a rule
// *.name also matches the name itself.
func (h *hostRule) denies(t *target) bool {
	if h.port != 0 && t.port != 0 && h.port != t.port {
		return false
	}
	return h.matches(t) || h.below != "" && t.name == h.below[1:]
}

func (h *hostRule) matches(t *target) bool {
	switch {
	case h.all:
		return true
	case t.addr.IsValid():
		return h.prefix.IsValid() && h.prefix.Contains(t.addr)
	case h.name != "":
		return t.name == h.name
	case h.below != "":
		return strings.HasSuffix(t.name, h.below) && len(t.name) > len(h.below)
	case h.glob != "":
		return doublestar.MatchUnvalidated(h.glob, strings.ReplaceAll(t.name, ".", "/"))
	default:
		return false
	}
}
