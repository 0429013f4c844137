package httpserver

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// KnowsPeers: the system tells which user is at the other end of a connection.
const KnowsPeers = true

// peers finds the users of connections.
type peers struct {
	direct atomic.Bool // the kernel has answered about one socket before
}

// user asks the kernel for the client's socket. Where that is not possible, as
// in some sandboxes, it reads the list of all sockets, which can be long. Only a
// socket that a process holds counts: a closed one exists for a while, and then
// seems to be root's.
func (p *peers) user(local, remote netip.AddrPort) (int, error) {
	uid, err := diagUser(local, remote)
	if err == nil {
		p.direct.Store(true)
	} else if !p.direct.Load() {
		uid, err = listedUser("/proc/net", local, remote)
	}
	return uid, err
}

var errNoPeer = errors.New("no such connection on this machine")

const (
	netlinkDiag     = 4  // NETLINK_SOCK_DIAG
	diagByFamily    = 20 // SOCK_DIAG_BY_FAMILY
	stateListen     = 10 // TCP_LISTEN
	diagRequestSize = 56 // struct inet_diag_req_v2
	diagAnswerSize  = 72 // struct inet_diag_msg
)

// diagUser asks for the client's socket by netlink; see sock_diag(7).
func diagUser(local, remote netip.AddrPort) (uid int, err error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, netlinkDiag)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, syscall.Close(fd)) }()
	// The kernel answers at once; this is for the case that it does not.
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 1}); err != nil {
		return 0, err
	}
	if err := syscall.Sendto(fd, diagRequest(local, remote), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, from, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	if sender, ok := from.(*syscall.SockaddrNetlink); !ok || sender.Pid != 0 {
		return 0, errNoPeer // not the kernel
	}
	return diagAnswer(answer[:n], local, remote)
}

func diagRequest(local, remote netip.AddrPort) []byte {
	b := make([]byte, syscall.NLMSG_HDRLEN+diagRequestSize)
	native := binary.NativeEndian
	native.PutUint32(b[0:], uint32(len(b)))
	native.PutUint16(b[4:], diagByFamily)
	native.PutUint16(b[6:], syscall.NLM_F_REQUEST)
	r := b[syscall.NLMSG_HDRLEN:]
	r[0], r[1] = syscall.AF_INET6, syscall.IPPROTO_TCP
	if remote.Addr().Is4() {
		r[0] = syscall.AF_INET
	}
	native.PutUint32(r[4:], ^uint32(0)) // in any state
	binary.BigEndian.PutUint16(r[8:], remote.Port())
	binary.BigEndian.PutUint16(r[10:], local.Port())
	copy(r[12:28], remote.Addr().AsSlice())
	copy(r[28:44], local.Addr().AsSlice())
	native.PutUint64(r[48:], ^uint64(0)) // no cookie
	return b
}

func diagAnswer(b []byte, local, remote netip.AddrPort) (int, error) {
	native := binary.NativeEndian
	if len(b) < syscall.NLMSG_HDRLEN+diagAnswerSize || native.Uint16(b[4:]) != diagByFamily {
		return 0, errNoPeer
	}
	r := b[syscall.NLMSG_HDRLEN:]
	// Without such a connection the kernel may answer with a listener instead.
	if r[1] == stateListen || binary.BigEndian.Uint16(r[4:]) != remote.Port() || binary.BigEndian.Uint16(r[6:]) != local.Port() {
		return 0, errNoPeer
	}
	if inode := native.Uint32(r[68:]); inode == 0 {
		return 0, errNoPeer // nobody holds it
	}
	return int(native.Uint32(r[64:])), nil
}

// listedUser searches the lists of sockets. IPv4 connections of IPv6 sockets are on
// the second.
func listedUser(dir string, local, remote netip.AddrPort) (int, error) {
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(dir + "/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		uid, err := scanUser(f, local, remote)
		if err = errors.Join(err, f.Close()); err == nil || !errors.Is(err, errNoPeer) {
			return uid, err
		}
	}
	return 0, errNoPeer
}

// scanUser finds the client's line: its own address is our remote one.
func scanUser(r io.Reader, local, remote netip.AddrPort) (int, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] == "0A" || fields[9] == "0" { // a listener, or nobody holds it
			continue
		}
		own, err := listedAddress(fields[1])
		if err != nil || own != remote {
			continue
		}
		if peer, err := listedAddress(fields[2]); err != nil || peer != local {
			continue
		}
		return strconv.Atoi(fields[7])
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errNoPeer
}

// listedAddress reads an address of /proc/net/tcp: native words, a colon, the port.
func listedAddress(s string) (netip.AddrPort, error) {
	digits, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(digits)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		for word := range slices.Chunk(raw, 4) {
			slices.Reverse(word)
		}
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}
