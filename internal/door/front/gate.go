package front

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// gate decides who may come in. A browser on this machine can be made to send
// requests by any page it shows, so an address that only this machine reaches
// is not enough: the name that the browser believes to talk to, and the page
// that made it, are checked too.
type gate struct {
	names  []string // that this server is known by
	beyond bool     // bound to an address that other machines reach
	token  bool
	hash   [sha256.Size]byte
}

func newGate(ip netip.Addr, opts Options) gate {
	g := gate{names: []string{"localhost"}, beyond: !ip.IsLoopback(), token: opts.Token != "", hash: sha256.Sum256([]byte(opts.Token))}
	for _, name := range append([]string{opts.Addr}, opts.Hosts...) {
		g.names = append(g.names, canonical(name))
	}
	return g
}

func canonical(name string) string {
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// cross says what is wrong with where a request comes from, or "".
func (g gate) cross(r *http.Request) string {
	if !g.known(r.Host) {
		return fmt.Sprintf("The Host header names %q, which is not a name of this server. Use its IP address, or add the name to those it is known by.", clip(r.Host, 64))
	}
	for _, origin := range r.Header.Values("Origin") {
		// The scheme may be that of a proxy in front. "null" has no host.
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, r.Host) {
			return "Requests from web pages of other origins are refused."
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "none" && site != "same-origin" {
			return "Requests from web pages of other origins are refused."
		}
	}
	return ""
}

// known reports whether a Host header is ours. An IP address cannot be made to
// point elsewhere, as a name can; a name has to be one that we know.
func (g gate) known(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Zone() == "" && (g.beyond || ip.Unmap().IsLoopback())
	}
	return name != "" && slices.Contains(g.names, canonical(name))
}

// admits reports whether a request shows the token.
func (g gate) admits(h http.Header) bool {
	ok := false
	for _, value := range h.Values("Authorization") {
		if scheme, token, found := strings.Cut(value, " "); found && strings.EqualFold(scheme, "Bearer") {
			ok = g.matches(strings.TrimSpace(token)) || ok
		}
	}
	// Browsers and their like cannot set headers on a WebSocket, but can offer
	// sub-protocols.
	for _, value := range h.Values("Sec-Websocket-Protocol") {
		for offered := range strings.SplitSeq(value, ",") {
			if token, found := strings.CutPrefix(strings.TrimSpace(offered), "bearer."); found {
				ok = g.matches(token) || ok
			}
		}
	}
	for _, token := range h.Values("X-Api-Key") {
		ok = g.matches(token) || ok
	}
	return ok
}

// matches compares hashes, so that neither the time nor the length tells
// anything.
func (g gate) matches(token string) bool {
	hash := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(hash[:], g.hash[:]) == 1
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
