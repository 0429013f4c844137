package gateway

import (
	"bufio"
	"context"
	bytesorder "encoding/binary"
	"io"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
)

// relay is a proxy between a client and the gateway that can cut connections
// and inject data. It parses the gateway's frames, so that it can inject data
// between two of them.
type relay struct {
	l    net.Listener
	to   string
	work sync.WaitGroup

	mu   sync.Mutex
	seen int
	open map[net.Conn]net.Conn // client connection to gateway connection
}

func newRelay(t *testing.T, g *openclawtest.Gateway) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{l: l, to: strings.TrimPrefix(g.URL, "http://"), open: map[net.Conn]net.Conn{}}
	r.work.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close() // ends accept
		r.cut()
		r.work.Wait()
	})
	return r
}

func (r *relay) url() string { return "ws://" + r.l.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.l.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", r.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.seen++
		r.open[client] = server
		r.mu.Unlock()
		r.work.Go(func() {
			_, _ = io.Copy(server, client) // until either side disconnects
			r.hangUp(client)
		})
		r.work.Go(func() {
			_ = r.forwardAnswers(client, server)
			r.hangUp(client)
		})
	}
}

func (r *relay) hangUp(client net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if server, ok := r.open[client]; ok {
		_, _ = client.Close(), server.Close()
		delete(r.open, client)
	}
}

// forwardAnswers forwards the gateway's data: first the head of the HTTP
// response, then frame by frame.
func (r *relay) forwardAnswers(client, server net.Conn) error {
	from := bufio.NewReader(server)
	for line := ""; line != "\r\n"; {
		var err error
		if line, err = from.ReadString('\n'); err != nil {
			return err
		}
		if err := r.write(client, []byte(line)); err != nil {
			return err
		}
	}
	for {
		f, err := readFrame(from)
		if err != nil {
			return err
		}
		if err := r.write(client, f); err != nil {
			return err
		}
	}
}

func (r *relay) write(client net.Conn, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := client.Write(data)
	return err
}

// readFrame reads one WebSocket frame of the server, which is never masked.
func readFrame(from *bufio.Reader) ([]byte, error) {
	f := make([]byte, 2, 16)
	if _, err := io.ReadFull(from, f); err != nil {
		return nil, err
	}
	more := map[byte]int{126: 2, 127: 8}[f[1]&0x7f]
	f = f[:2+more]
	if _, err := io.ReadFull(from, f[2:]); err != nil {
		return nil, err
	}
	length := uint64(f[1] & 0x7f)
	switch more {
	case 2:
		length = uint64(bytesorder.BigEndian.Uint16(f[2:]))
	case 8:
		length = bytesorder.BigEndian.Uint64(f[2:])
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(from, payload); err != nil {
		return nil, err
	}
	return append(f, payload...), nil
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for client, server := range r.open {
		_, _ = client.Close(), server.Close()
		delete(r.open, client)
	}
}

// inject sends data to the clients as if it came from the gateway.
func (r *relay) inject(t *testing.T, data []byte) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) == 0 {
		t.Error("no client is connected")
	}
	for client := range r.open {
		if _, err := client.Write(data); err != nil {
			t.Error(err)
		}
	}
}

func (r *relay) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// textFrame is a short text as a WebSocket frame of the server.
func textFrame(text string) []byte { return append([]byte{0x81, byte(len(text))}, text...) }

// remoteURL is the gateway's address through a proxy that the gateway trusts, so
// that a client looks like one on another machine.
func remoteURL(t *testing.T, g *openclawtest.Gateway) string {
	t.Helper()
	to, err := url.Parse(g.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("X-Forwarded-For", "203.0.113.7")
		r.Out.Header.Set("X-Forwarded-Proto", "http")
	}})
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http")
}
