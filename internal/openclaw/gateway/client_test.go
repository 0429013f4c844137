package gateway

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}))
}

func quick(url string) Options {
	return Options{URL: url, Token: "right", Version: "1", First: 5 * time.Millisecond, Most: 20 * time.Millisecond, Handshake: 10 * time.Second}
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// eventually calls until it is answered.
func eventually(t *testing.T, c *Client, method string) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		got, err := c.Call(t.Context(), method, nil)
		if err == nil {
			if string(got) != `"`+method+`"` {
				t.Fatalf("answered %s", got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
}

func TestCall(t *testing.T) {
	var got connectParams
	b := newBroken(t, func(p *peer) {
		p.admit()
		got = p.got
		for {
			id, method, params, ok := p.next()
			if !ok {
				return
			}
			res := `{"type":"res","id":"` + id + `","ok":`
			switch method {
			case "echo":
				p.send(res + `true,"payload":` + string(params) + `}`)
			default:
				p.send(res + `false,"error":{"code":"INVALID_REQUEST","message":"no such\n method","details":{"x":1}}}`)
			}
		}
	})
	c := client(t, quick(b.url()))
	answer, err := c.Call(t.Context(), "echo", map[string]any{"a": 1})
	if err != nil || string(answer) != `{"a":1}` {
		t.Fatalf("%s, %v", answer, err)
	}
	want := connectParams{MinProtocol: 4, MaxProtocol: 4, Role: "operator"}
	if got.MinProtocol != want.MinProtocol || got.MaxProtocol != 4 || got.Role != want.Role || got.Client.ID != "gateway-client" || got.Client.Mode != "backend" ||
		got.Auth == nil || got.Auth.Token != "right" || got.Device != nil || strings.Join(got.Scopes, ",") != "operator.read" {
		t.Errorf("introduced itself as %+v", got)
	}
	if _, err = c.Call(t.Context(), "none", nil); bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), "no such method") {
		t.Errorf("%v", err)
	}
	if _, err := c.Call(t.Context(), "echo", strings.Repeat("x", 2_000_000)); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("a request that is too large: %v", err)
	}
	if h, err := c.Hello(t.Context()); err != nil || h.Server.Version != "9" {
		t.Errorf("%+v, %v", h, err)
	}
	if n := b.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// What the gateway will not have is not tried again.
func TestRefusedForGood(t *testing.T) {
	for name, script := range map[string]func(*peer){
		"wrong token": func(p *peer) {
			p.refuse(`{"code":"INVALID_REQUEST","message":"unauthorized","details":{"code":"AUTH_TOKEN_MISMATCH","canRetryWithDeviceToken":true}}`)
			p.close(websocket.StatusPolicyViolation)
		},
		"code at the top": func(p *peer) { p.refuse(`{"code":"AUTH_TOKEN_MISMATCH","message":"unauthorized"}`) },
		"not paired":      func(p *peer) { p.refuse(`{"code":"X","message":"pair","details":{"code":"PAIRING_REQUIRED"}}`) },
		"closed at once":  func(p *peer) { p.close(websocket.StatusPolicyViolation) },
		"closed later": func(p *peer) {
			p.admit()
			p.next()
			p.close(websocket.StatusPolicyViolation)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroken(t, script)
			c := client(t, quick(b.url()))
			for range 3 {
				_, err := c.Call(t.Context(), "x", nil)
				if e := bridge.AsError(err); e.Code != bridge.CodeUnauthenticated || e.Remedy == "" {
					t.Fatalf("%v: %+v", err, e)
				}
				if strings.Contains(err.Error(), "right") {
					t.Errorf("the token is in the error: %v", err)
				}
			}
			c.Close() // it has given up
			if n := b.connections(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// What may pass is tried again.
func TestComesBack(t *testing.T) {
	slow := func(p *peer) {
		p.refuse(`{"code":"UNAVAILABLE","message":"starting","retryable":true,"retryAfterMs":5}`)
		p.close(websocket.StatusTryAgainLater)
	}
	for name, scripts := range map[string][]func(*peer){
		"slow start": {slow, slow, slow, good},
		"rate limit": {func(p *peer) { p.refuse(`{"code":"X","message":"m","details":{"code":"AUTH_RATE_LIMITED"}}`) }, good},
		"pairing under way": {func(p *peer) {
			p.refuse(`{"code":"X","message":"m","details":{"code":"PAIRING_REQUIRED","retryable":true,"recommendedNextStep":"wait_then_retry","retryAfterMs":1}}`)
		}, good},
		"cut before the greeting": {func(p *peer) { _ = p.ws.CloseNow() }, good},
		"cut in the greeting":     {func(p *peer) { p.challenge(); _ = p.ws.CloseNow() }, good},
		"bad challenge":           {func(p *peer) { p.send(`{"type":"event","event":"connect.challenge","payload":{"nonce":7}}`); p.next() }, good},
		"bad welcome":             {func(p *peer) { p.send(`{"type":"res","id":"` + p.challenge() + `","ok":true,"payload":[]}`); p.next() }, good},
		"nothing but garbage": {func(p *peer) {
			for range 100 {
				p.send("{{{")
			}
			p.next()
		}, good},
		"restart": {func(p *peer) {
			p.admit()
			p.send(`{"type":"event","event":"shutdown","payload":{"reason":"restart"}}`)
			p.close(websocket.StatusServiceRestart)
		}, good},
		"garbage, then silence": {func(p *peer) { p.admitWith("", "20"); p.send("nonsense"); p.next(); p.next() }, good},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroken(t, scripts...)
			eventually(t, client(t, quick(b.url())), "ping")
			if n := b.connections(); n != len(scripts) {
				t.Errorf("%d connections, want %d", n, len(scripts))
			}
		})
	}
}

func TestGarbageIsPassedOver(t *testing.T) {
	b := newBroken(t, func(p *peer) {
		p.send(`hello?`)
		p.send(`{"type":"weather","x":[1,2]}`)
		p.admit()
		for {
			id, method, _, ok := p.next()
			if !ok {
				return
			}
			_ = p.ws.Write(p.ctx, websocket.MessageBinary, []byte{0, 1, 2})
			p.send(`[]`)
			p.send(`{"type":"res","id":"unknown","ok":true}`)
			p.send(`{"type":"res","ok":true}`)
			p.send(`{"type":"event"}`)
			p.send(`{"type":"res","id":"` + id + `","ok":true,"payload":"` + method + `"}`)
		}
	})
	c := client(t, quick(b.url()))
	for range 10 {
		if got, err := c.Call(t.Context(), "ping", nil); err != nil || string(got) != `"ping"` {
			t.Fatalf("%s, %v", got, err)
		}
	}
	if n := b.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A call that is under way when the connection breaks fails, and is not made
// again.
func TestLostCall(t *testing.T) {
	var mu sync.Mutex
	made := 0
	b := newBroken(t, func(p *peer) {
		p.admit()
		p.next()
		mu.Lock()
		made++
		mu.Unlock()
		_ = p.ws.CloseNow()
	}, good)
	c := client(t, quick(b.url()))
	if _, err := c.Call(t.Context(), "pay", nil); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("%v", err)
	}
	eventually(t, c, "ping")
	mu.Lock()
	defer mu.Unlock()
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

func TestGatewayRestart(t *testing.T) {
	b := newBroken(t, good)
	c := client(t, quick(b.url()))
	eventually(t, c, "one")
	at := b.Listener.Addr()
	b.die()
	deadline := time.Now().Add(10 * time.Second)
	for { // until it has noticed
		_, err := c.Call(t.Context(), "two", nil)
		if err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("calls are answered by nobody")
		}
	}
	reopen(t, at, good)
	eventually(t, c, "three")
}

// Silence is noticed, and a heartbeat is no silence.
func TestHeartbeat(t *testing.T) {
	beaten := make(chan struct{})
	beating := func(p *peer) {
		p.admitWith("", "1000")
		var ticking sync.WaitGroup
		ticking.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for range 25 { // longer than it may be silent, which is two seconds
				<-tick.C
				p.send(`{"type":"event","event":"tick","payload":{"ts":1}}`)
			}
			close(beaten)
		})
		p.answer()
		ticking.Wait()
	}
	b := newBroken(t, beating)
	c := client(t, quick(b.url()))
	eventually(t, c, "one")
	<-beaten
	eventually(t, c, "two")
	if n := b.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestBounds(t *testing.T) {
	arrived := make(chan string, 10)
	b := newBroken(t, func(p *peer) {
		p.admit()
		for {
			_, method, _, ok := p.next()
			if !ok {
				return
			}
			arrived <- method
		}
	})
	o := quick(b.url())
	o.MaxPending = 2
	c := client(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if _, err := c.Call(ctx, "never", nil); bridge.CodeOf(err) != bridge.CodeCanceled {
				t.Errorf("%v", err)
			}
		})
		<-arrived
	}
	if _, err := c.Call(t.Context(), "one more", nil); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Errorf("%v", err)
	}
	cancel()
	calls.Wait()
	short, done := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer done()
	if _, err := c.Call(short, "never", nil); bridge.CodeOf(err) != bridge.CodeTimeout {
		t.Errorf("%v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	b := newBroken(t, good)
	at := b.Listener.Addr()
	b.Close()
	o := quick("ws://" + at.String())
	o.First, o.Most = time.Second, time.Second
	c := client(t, o)
	for range 2 { // and the second time at once
		if _, err := c.Call(t.Context(), "x", nil); bridge.CodeOf(err) != bridge.CodeUnavailable || bridge.AsError(err).Remedy == "" {
			t.Fatalf("%v", err)
		}
	}
	reopen(t, at, good)
	eventually(t, c, "x")
}

func TestGreetingTakesTooLong(t *testing.T) {
	b := newBroken(t, func(p *peer) { p.next() })
	o := quick(b.url())
	o.Handshake = 20 * time.Millisecond
	if _, err := client(t, o).Call(t.Context(), "x", nil); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("%v", err)
	}
}

func TestClose(t *testing.T) {
	b := newBroken(t, func(p *peer) { p.admit(); p.next(); p.next() })
	c := New(quick(b.url()))
	if _, err := c.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := c.Call(context.Background(), "x", nil); ended <- err }()
	c.Close()
	if err := <-ended; err == nil {
		t.Error("a call is answered after the end")
	}
	if _, err := c.Call(t.Context(), "x", nil); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("%v", err)
	}
	c.Close()
	New(quick(b.url())).Close() // one that was never used
}

func TestPause(t *testing.T) {
	o := Options{}.defaults()
	for attempt, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		want *= time.Second
		differ := map[time.Duration]bool{}
		for range 50 {
			d := o.pause(attempt, 0)
			if d < want/2 || d > want {
				t.Fatalf("attempt %d: %s", attempt, d)
			}
			differ[d] = true
		}
		if len(differ) < 10 {
			t.Errorf("attempt %d: always the same", attempt)
		}
	}
	if d := o.pause(0, 7*time.Second); d != 7*time.Second {
		t.Errorf("asked for 7 s: %s", d)
	}
	if d := o.pause(0, time.Hour); d != 30*time.Second {
		t.Errorf("asked for an hour: %s", d)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"type":"res","id":"1","ok":true,"payload":{}}`, `{"type":"event","event":"tick","payload":null,"seq":3}`, `{"type":"req"}`, `[]`, `{"type":7}`,
		`{"type":"res","id":"1","error":{"code":"X","message":"m","details":[1],"retryAfterMs":-1}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, known, err := decode(data)
		if known && (err != nil || frame.ID == "" && frame.Event == "") {
			t.Fatalf("%+v, %v", frame, err)
		}
		if known && frame.Type == "res" && !frame.OK {
			if e := bridge.AsError(connectRefused(frame.Error)); e.Code == "" || e.RetryAfter < 0 {
				t.Fatalf("%+v", e)
			}
		}
	})
}
