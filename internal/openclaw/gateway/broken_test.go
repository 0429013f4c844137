package gateway

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// broken is a gateway that behaves as the test wants, connection by
// connection; the last behaviour stays.
type broken struct {
	*httptest.Server
	mu      sync.Mutex
	scripts []func(*peer)
	seen    int
	open    []*websocket.Conn
}

// peer is the gateway's end of a connection.
type peer struct {
	t   *testing.T
	ctx context.Context
	ws  *websocket.Conn
	got connectParams
}

func newBroken(t *testing.T, scripts ...func(*peer)) *broken {
	t.Helper()
	b := &broken{scripts: scripts}
	b.Server = httptest.NewServer(b.handler(t))
	t.Cleanup(b.Close)
	return b
}

func (b *broken) handler(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
		defer cancel()
		b.mu.Lock()
		script := b.scripts[min(b.seen, len(b.scripts)-1)]
		b.seen++
		b.open = append(b.open, ws)
		b.mu.Unlock()
		script(&peer{t: t, ctx: ctx, ws: ws})
	})
}

func (b *broken) url() string { return "ws" + strings.TrimPrefix(b.URL, "http") }

func (b *broken) connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// die ends the gateway as a kill would.
func (b *broken) die() {
	b.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ws := range b.open {
		_ = ws.CloseNow()
	}
}

func (p *peer) send(text string) { _ = p.ws.Write(p.ctx, websocket.MessageText, []byte(text)) }

// next reads a request; it returns false when the connection has ended.
func (p *peer) next() (id, method string, params json.RawMessage, ok bool) {
	_, data, err := p.ws.Read(p.ctx)
	if err != nil {
		return "", "", nil, false
	}
	var f struct {
		ID, Method, Type string
		Params           json.RawMessage
	}
	if err := json.Unmarshal(data, &f); err != nil || f.Type != "req" {
		p.t.Errorf("the client sends %s", data)
	}
	return f.ID, f.Method, f.Params, true
}

// challenge asks who is there, and returns the id of the answer.
func (p *peer) challenge() string {
	p.send(`{"type":"event","event":"connect.challenge","payload":{"nonce":"n-1","ts":1737264000000}}`)
	id, method, params, ok := p.next()
	if !ok {
		return ""
	}
	if method != "connect" || json.Unmarshal(params, &p.got) != nil {
		p.t.Errorf("%s instead of connect: %s", method, params)
	}
	return id
}

const welcome = `{"type":"hello-ok","protocol":4,"server":{"version":"9","connId":"c"},"features":{"methods":["memory.search"],"events":["tick"]},"snapshot":{},"auth":{"role":"operator","scopes":["operator.read"]%s},"policy":{"maxPayload":1000000,"maxBufferedBytes":1,"tickIntervalMs":%s}}`

// admit lets the client in.
func (p *peer) admit() { p.admitWith("", "30000") }

func (p *peer) admitWith(device, tick string) {
	id := p.challenge()
	text := strings.Replace(strings.Replace(welcome, "%s", device, 1), "%s", tick, 1)
	p.send(`{"type":"res","id":"` + id + `","ok":true,"payload":` + text + `}`)
}

func (p *peer) refuse(fault string) {
	p.send(`{"type":"res","id":"` + p.challenge() + `","ok":false,"error":` + fault + `}`)
}

func (p *peer) close(code websocket.StatusCode) { _ = p.ws.Close(code, "said the test") }

// answer answers every request with its method's name.
func (p *peer) answer() {
	for {
		id, method, _, ok := p.next()
		if !ok {
			return
		}
		p.send(`{"type":"res","id":"` + id + `","ok":true,"payload":"` + method + `"}`)
	}
}

func good(p *peer) {
	p.admit()
	p.answer()
}

// reopen starts a gateway at the address of one that was closed.
func reopen(t *testing.T, at net.Addr, scripts ...func(*peer)) *broken {
	t.Helper()
	b := &broken{scripts: scripts}
	b.Server = httptest.NewUnstartedServer(b.handler(t))
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Listener.Close()
	b.Listener = l
	b.Start()
	t.Cleanup(b.Close)
	return b
}
