package httpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// gate decides which requests are admitted. Any page can make a browser on this
// machine send requests, so a loopback address is not enough: the Host and the
// Origin are checked too.
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

// foreign says why the origin of a request is not allowed, or "".
func (g gate) foreign(r *http.Request) string {
	if !g.known(r.Host) {
		return fmt.Sprintf("The Host header names %q, which is not a name of this server. Use its IP address, or add the name to those it is known by.", text.Clip(r.Host, 64))
	}
	for _, origin := range r.Header.Values("Origin") {
		// The scheme may be that of a proxy in front. "null" has no host.
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, r.Host) {
			return "Requests from web pages of other origins are refused."
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "none" && site != "same-origin" && !followed(r) {
			return "Requests from web pages of other origins are refused."
		}
	}
	return ""
}

// followed says that a person clicked a link, in web mail say, to a page that shows
// nothing without a login or that a link is meant for. Browsers send no cookie then,
// and the page that has the link cannot read the answer.
func followed(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodGet && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/approve/")) && h.Get("Origin") == "" &&
		h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document" && h.Get("Sec-Fetch-User") == "?1"
}

// known reports whether a Host header is ours. Unlike an address, a name can be
// made to point elsewhere, so it has to be one that we know.
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
	// Browsers cannot set headers on a WebSocket, but can offer sub-protocols.
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

// matches compares hashes, which tells neither the time nor the length.
func (g gate) matches(token string) bool {
	hash := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(hash[:], g.hash[:]) == 1
}

// peerFunc finds the user at the other end of a connection.
type peerFunc func(net.Conn) (uid int, err error)

// of is the peerFunc of TCP connections within this machine.
func (p *peers) of(c net.Conn) (int, error) {
	local, ok := c.LocalAddr().(*net.TCPAddr)
	remote, ok2 := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !ok2 {
		return 0, errors.ErrUnsupported
	}
	return p.user(unmapped(local), unmapped(remote))
}

func unmapped(a *net.TCPAddr) netip.AddrPort {
	at := a.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// DialOwn connects to a server of this machine that runs as this user, or as root.
// Where the system does not tell who that is, there is none.
func DialOwn(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	find := new(peers)
	tick := time.NewTicker(acceptPoll)
	defer tick.Stop()
	for until := time.Now().Add(acceptWait); ; {
		uid, err := find.of(c)
		if err == nil && mine(uid) {
			return c, nil
		}
		// Nobody holds the other end before the server has accepted it.
		if err == nil || errors.Is(err, errors.ErrUnsupported) || time.Now().After(until) {
			return nil, errors.Join(errors.New("it cannot be seen that a program of this user listens on "+addr), c.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), c.Close())
		}
	}
}

// How long a server may take to accept a connection, and how often that is looked at.
const (
	acceptWait = 2 * time.Second
	acceptPoll = 2 * time.Millisecond
)

// ofSameUser reports whether the client of a connection runs as the user that
// this process runs as, or as root, who can do all of this anyway. A client
// that is not found, because it is on another machine or in another network
// namespace, is another user.
func ofSameUser(c net.Conn, find peerFunc) bool {
	uid, err := find(c)
	return err == nil && mine(uid)
}

func mine(uid int) bool { return uid == os.Geteuid() || uid == 0 }
