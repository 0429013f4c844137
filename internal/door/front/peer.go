package front

import (
	"errors"
	"net"
	"net/netip"
	"os"
)

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

// ofSameUser reports whether the client of a connection runs as the user that
// this process runs as, or as root, who can do all of this anyway. A client
// that is not found, because it is on another machine or in a network
// namespace of its own, is somebody else. It is looked up once.
func (p *placed) ofSameUser(find peerFunc) bool {
	if !p.asked {
		uid, err := find(p.Conn)
		p.asked, p.sameUser = true, err == nil && (uid == os.Geteuid() || uid == 0)
	}
	return p.sameUser
}
