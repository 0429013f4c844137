package load

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// relay is a proxy between the runtime and the model. It records when the
// runtime closes a connection. It can stop listening and start again on the
// same address.
type relay struct {
	t    *testing.T
	to   string // the model's host and port
	addr string // the relay's own address

	mu    sync.Mutex
	l     net.Listener
	open  map[net.Conn]struct{}
	ended map[string]time.Time // when the connection of a caller was closed, by nonce
	wg    sync.WaitGroup
}

func newRelay(t *testing.T, model string) *relay {
	t.Helper()
	r := &relay{t: t, to: strings.TrimPrefix(model, "http://"), addr: "127.0.0.1:0", open: map[net.Conn]struct{}{}, ended: map[string]time.Time{}}
	r.up()
	t.Cleanup(r.down)
	return r
}

func (r *relay) url() string { return "http://" + r.addr }

// up starts listening.
func (r *relay) up() {
	r.t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.addr = l.Addr().String()
	r.mu.Lock()
	r.l = l
	r.mu.Unlock()
	r.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() { r.serve(conn) })
		}
	})
}

// down stops listening and closes all connections.
func (r *relay) down() {
	r.mu.Lock()
	if r.l != nil {
		_ = r.l.Close() // may already be closed
	}
	for c := range r.open {
		_ = c.Close() // may already be closed
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// closed returns when the runtime closed the connection with the request of a
// caller.
func (r *relay) closed(nonce string) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.ended[nonce]
	return at, ok
}

func (r *relay) track(c net.Conn) func() {
	r.mu.Lock()
	r.open[c] = struct{}{}
	r.mu.Unlock()
	return func() {
		_ = c.Close() // may already be closed
		r.mu.Lock()
		delete(r.open, c)
		r.mu.Unlock()
	}
}

func (r *relay) serve(runtime net.Conn) {
	defer r.track(runtime)()
	var d net.Dialer
	model, err := d.DialContext(context.Background(), "tcp", r.to)
	if err != nil {
		return
	}
	defer r.track(model)()
	r.wg.Go(func() {
		_, _ = io.Copy(runtime, model) // ends when either side closes
		_ = runtime.Close()
	})
	nonce, tail := "", ""
	buf := make([]byte, 64<<10)
	for {
		n, err := runtime.Read(buf)
		text := tail + string(buf[:n])
		if found := nonces.FindAllString(text, -1); found != nil {
			nonce = found[len(found)-1]
		}
		tail = text[max(0, len(text)-64):]
		if n > 0 {
			if _, err := model.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if nonce != "" && !errors.Is(err, net.ErrClosed) {
				r.mu.Lock()
				r.ended[nonce] = time.Now()
				r.mu.Unlock()
			}
			return
		}
	}
}
