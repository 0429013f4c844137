package httpserver

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// The kernel's two ways to tell agree, for every family of sockets.
func TestPeerUser(t *testing.T) {
	for _, tt := range []struct{ name, listen, dial string }{
		{"IPv4", "127.0.0.1:0", "127.0.0.1"},
		{"IPv6", "[::1]:0", "::1"},
		{"IPv4 to a socket of both", "[::]:0", "127.0.0.1"},
		{"IPv4 from a socket of IPv6", "127.0.0.1:0", "::ffff:127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp", tt.listen)
			if err != nil {
				t.Skipf("this machine has no such address: %v", err)
			}
			defer func() { _ = l.Close() }()
			port := boundTo(l).Port()
			client := dialRaw(t, netip.AddrPortFrom(netip.MustParseAddr(tt.dial), port))
			defer func() { _ = client.Close() }()
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			local, remote := ends(t, server)
			byDiag, err := diagUser(local, remote)
			if err != nil || byDiag != os.Geteuid() {
				t.Errorf("by netlink: %d, %v", byDiag, err)
			}
			byList, err := listedUser("/proc/net", local, remote)
			if err != nil || byList != os.Geteuid() {
				t.Errorf("by list: %d, %v", byList, err)
			}
			// With the addresses swapped it is our own socket; one port on it is none.
			nobody := netip.AddrPortFrom(remote.Addr(), remote.Port()^1)
			if uid, err := new(peers).user(local, nobody); err == nil {
				t.Errorf("nobody is %d", uid)
			}
			// A listener of that address is not the client.
			if uid, err := new(peers).user(netip.AddrPortFrom(local.Addr(), 1), local); err == nil {
				t.Errorf("a listener is taken for the client %d", uid)
			}
		})
	}
}

// ends are the addresses of a TCP connection.
func ends(t testing.TB, c net.Conn) (local, remote netip.AddrPort) {
	t.Helper()
	from, ok := c.LocalAddr().(*net.TCPAddr)
	to, ok2 := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !ok2 {
		t.Fatal("not a TCP connection")
	}
	return unmapped(from), unmapped(to)
}

// dialRaw connects with a socket of the address's own family, also where an
// IPv4 address is written as one of IPv6.
func dialRaw(t *testing.T, at netip.AddrPort) *os.File {
	t.Helper()
	family, to := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()})
	if at.Addr().Is4() {
		family, to = syscall.AF_INET, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	if err := syscall.Connect(fd, to); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestScanUser(t *testing.T) {
	const list = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2254 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0000000000000000 100 0 0 10 0
   1: 0100007F:9C40 0100007F:2254 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:2254 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0000000000000000 20 4 30 10 -1
   3: 0100007F:9C41 0100007F:2254 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0000000000000000
   3: 0100007F:9C44 0100007F:2254 05 00000000:00000000 03:00000000 00000000     0        0 0 3 0000000000000000
   4: 0000000000000000FFFF00000100007F:9C42 0000000000000000FFFF00000100007F:2254 01 00000000:00000000 00:00000000 00000000  1002        0 4 1
   5: 00000000000000000000000001000000:9C43 00000000000000000000000001000000:2254 01 00000000:00000000 00:00000000 00000000  1003        0 5 1
   6: broken line
`
	for remote, want := range map[string]int{
		"127.0.0.1:40000": 1001, "127.0.0.1:40001": -1, "127.0.0.1:40004": -1, "127.0.0.1:40002": 1002, "[::1]:40003": 1003, "127.0.0.1:8788": -1, "127.0.0.1:1": -1,
	} {
		r := netip.MustParseAddrPort(remote)
		local := netip.AddrPortFrom(r.Addr(), 8788)
		uid, err := scanUser(strings.NewReader(list), local, r)
		if want < 0 && !errors.Is(err, errNoPeer) || want >= 0 && (err != nil || uid != want) {
			t.Errorf("%s: %d, %v; want %d", remote, uid, err, want)
		}
	}
}

// Another user of this machine gets no further than the open paths, unless
// there is a token; root gets in.
func TestAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start a program as another user")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "front-") // not t.TempDir, which is for us alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "get")
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(program, data, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32, url string, env ...string) string {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Dir, cmd.Env = "/", append([]string{"FRONT_TEST_GET=" + url}, env...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	door := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") })
	for _, addr := range []string{"127.0.0.1", "::1"} {
		r := start(t, Options{Addr: addr, Doors: map[string]http.Handler{"GET /v1/models": door, "GET /rpc": door, "POST /mcp": door}})
		for _, path := range []string{"/v1/models", "/rpc", "/mcp", "/", "/metrics", "/nowhere"} {
			if got := as(65534, r.URL()+path); !strings.HasPrefix(got, "403 ") || !strings.Contains(got, "COPILOT_BRIDGE_TOKEN") || strings.Contains(got, "inside") {
				t.Errorf("%s%s: %s", addr, path, got)
			}
		}
		for path, want := range map[string]string{"/healthz": `200 {"ok":true}`, "/readyz": `200 {"ready":true}`} {
			if got := as(65534, r.URL()+path); !strings.HasPrefix(got, want+" ") {
				t.Errorf("%s: %s", path, got)
			}
		}
		if got := as(0, r.URL()+"/v1/models"); !strings.HasPrefix(got, "200 inside") {
			t.Errorf("the same user: %s", got)
		}
	}

	// The rest of a connection whose client has left belongs to no user.
	var entered atomic.Int32
	r := start(t, Options{Doors: map[string]http.Handler{"GET /v1/models": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered.Add(1) })}})
	as(65534, r.URL()+"/v1/models", "FRONT_TEST_LEAVE=300")
	if n := entered.Load(); n > 0 {
		t.Errorf("%d of 300 requests of another user got in, who closed the connection at once", n)
	}
	as(0, r.URL()+"/v1/models")
	if entered.Load() != 1 {
		t.Error("the same user did not get in")
	}
}

// A client of ours that has sent all it has to say may close its side.
func TestHalfClosedClient(t *testing.T) {
	r := start(t, Options{})
	conn := r.dial(t)
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	closeWrite(t, conn)
	if status, body := readAnswer(t, conn); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// Places that one address holds do not cost another address its own.
func TestAddressesShareFairly(t *testing.T) {
	r := start(t, Options{MaxConnections: 16, Token: "right"})
	quiet, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = quiet.Close() }()
	r.flood(t, 100, "")
	if _, err := io.WriteString(quiet, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if status, _ := readAnswer(t, quiet); status != 200 {
		t.Errorf("%d", status)
	}
}

func BenchmarkPeerUser(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	server, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Close() })
	local, remote := ends(b, server)
	for name, find := range map[string]func() (int, error){
		"netlink": func() (int, error) { return diagUser(local, remote) },
		"list":    func() (int, error) { return listedUser("/proc/net", local, remote) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := find(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A connection counts once a program of this user has accepted it.
func TestDialOwn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if c, err := DialOwn(t.Context(), "tcp", l.Addr().String()); err == nil || err.Error() != "it cannot be seen that a program of this user listens on "+l.Addr().String() {
		t.Errorf("nobody accepts: %v, %v", c, err)
	}
	var accepted []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 { // the first is that of before
			if c, err := l.Accept(); err == nil {
				accepted = append(accepted, c)
			}
		}
	}()
	c, err := DialOwn(t.Context(), "tcp", l.Addr().String())
	<-done
	for _, one := range append(accepted, c) {
		if one != nil {
			_ = one.Close()
		}
	}
	if err != nil {
		t.Error(err)
	}
}
