package httpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestMain(m *testing.M) {
	if address := os.Getenv("FRONT_TEST_GET"); address != "" {
		os.Exit(get(address))
	}
	// net/http keeps a connection whose request it has refused for half a second, so
	// that the refusal arrives, and then closes it by itself.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// get is this program as another user's: it prints what an address answers.
func get(address string) int {
	if n, err := strconv.Atoi(os.Getenv("FRONT_TEST_LEAVE")); err == nil {
		return leave(address, n)
	}
	answer, err := http.Get(address)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	body, err := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(body), errors.Join(err, answer.Body.Close()))
	return 0
}

// patient bounds waits that only a fault makes long.
const patient = 20 * time.Second

// leave sends requests and goes away before they are answered.
func leave(address string, n int) int {
	u, err := url.Parse(address)
	for i := 0; i < n && err == nil; i++ {
		var c net.Conn
		if c, err = net.Dial("tcp", u.Host); err == nil {
			_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", u.Path)
			err = errors.Join(err, c.Close())
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// ourselves is a peerFunc for connections that no system knows.
func ourselves(net.Conn) (int, error) { return os.Geteuid(), nil }

// running is a server under test, with its end.
type running struct {
	*Server
	client *http.Client
	stop   context.CancelFunc
	done   chan error // Serve's answer, once
}

func start(t *testing.T, opts Options) *running {
	t.Helper()
	if !KnowsPeers && opts.peer == nil {
		opts.peer = ourselves
	}
	s, err := Listen(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{}
	r := &running{Server: s, stop: cancel, done: make(chan error, 1)}
	r.client = &http.Client{Transport: transport, Timeout: patient, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	go func() { r.done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-s.idle:
		case <-time.After(patient):
			t.Error("requests are still running")
		}
	})
	return r
}

// finish stops the server and returns what Serve says.
func (r *running) finish(t *testing.T) error {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patient):
		t.Fatal("Serve does not return")
		return nil
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; the header "Host" is taken as such.
func (r *running) do(t *testing.T, method, path string, header map[string]string, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

func (r *running) get(t *testing.T, path string) answer {
	t.Helper()
	return r.do(t, http.MethodGet, path, nil, "")
}

// dial opens a bare connection.
func (r *running) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patient)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func echo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, data)
	})
}

var echoDoors = map[string]http.Handler{"POST /v1/chat/completions": echo(), "POST /v1/messages": echo(), "GET /v1/models/{id...}": echo()}

func TestListenRefuses(t *testing.T) {
	tests := []struct {
		name    string
		opts    Options
		code    bridge.Code
		mention string
	}{
		{"all addresses without a token", Options{Addr: "0.0.0.0"}, bridge.CodeInvalid, "no token"},
		{"all IPv6 addresses without a token", Options{Addr: "::"}, bridge.CodeInvalid, "no token"},
		{"another machine's address", Options{Addr: "192.0.2.1"}, bridge.CodeInvalid, "no token"},
		{"an address that is mapped", Options{Addr: "::ffff:192.0.2.1"}, bridge.CodeInvalid, "no token"},
		{"another machine's address with a token", Options{Addr: "192.0.2.1", Token: "t"}, bridge.CodeInvalid, "cannot listen on 192.0.2.1:0"},
		{"no address", Options{Addr: "no such host"}, bridge.CodeInvalid, `"no such host"`},
		{"no port", Options{Port: 70000}, bridge.CodeInvalid, "70000"},
		{"a token with a space", Options{Token: "a b"}, bridge.CodeInvalid, "token"},
		{"a token with a newline", Options{Token: "a\n"}, bridge.CodeInvalid, "token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Listen(t.Context(), tt.opts)
			if err == nil {
				t.Fatal(errors.Join(errors.New("it listens"), s.Close()))
			}
			e := bridge.AsError(err)
			if e.Code != tt.code || !strings.Contains(e.Message, tt.mention) {
				t.Errorf("error %#v", e)
			}
			if e.Code == bridge.CodeInvalid && e.Remedy == "" {
				t.Error("no remedy")
			}
			if tt.opts.Token != "" && len(tt.opts.Token) > 1 && strings.Contains(err.Error(), tt.opts.Token) {
				t.Error("the token is in the error")
			}
		})
	}
}

func TestListenBeyondLoopbackWithToken(t *testing.T) {
	r := start(t, Options{Addr: "0.0.0.0", Token: "secret", Doors: echoDoors, Hosts: []string{"Bridge.Example"}})
	if !strings.HasPrefix(r.URL(), "http://127.0.0.1:") {
		t.Errorf("URL %s", r.URL())
	}
	for host, want := range map[string]int{"192.0.2.7:80": 404, "[2001:db8::1]": 404, "bridge.example": 404, "localhost:1": 404, "evil.example": 403, "": 404} {
		if got := r.do(t, http.MethodGet, "/nowhere", map[string]string{"Host": host, "X-Api-Key": "secret"}, ""); got.status != want {
			t.Errorf("Host %q: %d %s", host, got.status, got.body)
		}
	}
	if got := r.get(t, "/nowhere"); got.status != 401 {
		t.Errorf("without the token: %d", got.status)
	}
}

func TestPortInUse(t *testing.T) {
	first := start(t, Options{})
	port := int(boundTo(first.listener).Port())
	s, err := Listen(t.Context(), Options{Port: port})
	if err == nil {
		t.Fatal(errors.Join(errors.New("two on one port"), s.Close()))
	}
	e := bridge.AsError(err)
	number := fmt.Sprint(port)
	if e.Code != bridge.CodeConflict || !strings.Contains(e.Message, number) || !strings.Contains(e.Remedy, number) || !strings.Contains(e.Remedy, "--port") {
		t.Errorf("error %#v", e)
	}
}

func TestServeOnce(t *testing.T) {
	r := start(t, Options{})
	if got := r.get(t, "/healthz"); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	if err := r.Serve(t.Context()); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Errorf("error %v", err)
	}
	if err := r.finish(t); err != nil {
		t.Error(err)
	}
	if err := r.Serve(t.Context()); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Errorf("afterwards: %v", err)
	}
}

func TestCloseWithoutServe(t *testing.T) {
	s, err := Listen(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	port := int(boundTo(s.listener).Port())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(t.Context(), Options{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseWhileServing(t *testing.T) {
	r := start(t, Options{})
	if got := r.get(t, "/healthz"); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-r.done; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

func TestRouting(t *testing.T) {
	r := start(t, Options{Doors: echoDoors})
	tests := []struct {
		method, path string
		status       int
		allow        string
		mention      string
	}{
		{"POST", "/v1/chat/completions", 200, "", "POST /v1/chat/completions hi"},
		{"POST", "//v1//chat/completions", 200, "", "POST /v1/chat/completions hi"},
		{"POST", "/v1/messages?beta=true", 200, "", "POST /v1/messages hi"},
		{"GET", "/v1/models/agent/gpt-5", 200, "", "/v1/models/agent/gpt-5"},
		{"GET", "/v1/chat/completions", 405, "POST, OPTIONS", `"code":"method_not_allowed"`},
		{"HEAD", "/v1/chat/completions", 405, "POST, OPTIONS", ""},
		{"DELETE", "/v1/messages", 405, "POST, OPTIONS", `{"type":"error","error":{"type":"invalid_request_error"`},
		{"OPTIONS", "/v1/messages", 204, "POST, OPTIONS", ""},
		{"OPTIONS", "/healthz", 204, "GET, HEAD, OPTIONS", ""},
		{"OPTIONS", "/nowhere", 404, "", ""},
		{"HEAD", "/healthz", 200, "", ""},
		{"HEAD", "/", 200, "", ""},
		{"POST", "/", 405, "GET, HEAD, OPTIONS", ""},
		{"GET", "/nowhere", 404, "", `"paths":["GET /","GET /healthz","GET /metrics","GET /readyz","POST /v1/chat/completions","POST /v1/messages","GET /v1/models/{id...}"]`},
		{"GET", "/v1/", 404, "", "POST /v1/chat/completions"},
		{"POST", "/v1/messages/nope", 404, "", `"error":{"type":"not_found_error"`},
		{"BREW", "/healthz", 405, "GET, HEAD, OPTIONS", "BREW"},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			got := r.do(t, tt.method, tt.path, nil, "hi")
			if got.status != tt.status || got.header.Get("Allow") != tt.allow || !strings.Contains(got.body, tt.mention) {
				t.Errorf("%d, Allow %q: %s", got.status, got.header.Get("Allow"), got.body)
			}
			if got.status >= 400 && got.header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type %q", got.header.Get("Content-Type"))
			}
			for name := range got.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("has %s", name)
				}
			}
		})
	}
}

// What a request has met shows at once, though the health is kept for a while.
func TestHealthAfterARequest(t *testing.T) {
	var asked atomic.Int32
	r := start(t, Options{Health: func(context.Context) Health {
		return Health{OK: true, Copilot: CopilotUnavailable, Reason: fmt.Sprint(asked.Add(1))}
	}})
	for _, tt := range []struct{ path, want string }{{"/healthz", "1"}, {"/healthz", "1"}, {"/", ""}, {"/healthz", "2"}, {"/healthz", "2"}} {
		if got := r.get(t, tt.path); tt.want != "" && !strings.Contains(got.body, `"reason":"`+tt.want+`"`) {
			t.Errorf("%s: %s, want %s", tt.path, got.body, tt.want)
		}
	}
}

func TestHealth(t *testing.T) {
	h := Health{OK: true, Copilot: CopilotUnavailable, Reason: "not logged in", Details: map[string]any{"version": "v9", "ok": "never"}}
	r := start(t, Options{Token: "t", Health: func(context.Context) Health { return h }})
	key := map[string]string{"X-Api-Key": "t"}
	tests := []struct {
		path   string
		header map[string]string
		status int
		want   string
	}{
		{"/healthz", nil, 200, `{"ok":true}`},
		{"/healthz", key, 200, `{"copilot":"unavailable","ok":true,"reason":"not logged in","version":"v9"}`},
		{"/readyz", nil, 503, `{"ready":false}`},
		{"/readyz", key, 503, `{"ready":false,"reason":"not logged in"}`},
		{"/healthz", map[string]string{"X-Api-Key": "wrong"}, 200, `{"ok":true}`},
	}
	for _, tt := range tests {
		if got := r.do(t, http.MethodGet, tt.path, tt.header, ""); got.status != tt.status || got.body != tt.want {
			t.Errorf("%s %v: %d %s", tt.path, tt.header, got.status, got.body)
		}
	}
	well := start(t, Options{})
	if got := well.get(t, "/healthz"); got.status != 200 || got.body != `{"copilot":"ok","ok":true}` {
		t.Errorf("%+v", got)
	}
	if got := well.get(t, "/readyz"); got.status != 200 || got.body != `{"ready":true}` {
		t.Errorf("%+v", got)
	}
	ill := start(t, Options{Health: func(context.Context) Health { return Health{Copilot: CopilotOK} }})
	if got := ill.get(t, "/healthz"); got.status != 503 {
		t.Errorf("%+v", got)
	}
}

// TestErrorsDecode holds that both kinds of SDK find what they look for.
func TestErrorsDecode(t *testing.T) {
	r := start(t, Options{Token: "t", Doors: echoDoors})
	var openai struct {
		Error struct{ Message, Type, Code string }
	}
	got := r.do(t, http.MethodPost, "/v1/chat/completions", nil, "")
	if err := json.Unmarshal([]byte(got.body), &openai); err != nil {
		t.Fatal(err)
	}
	if got.status != 401 || openai.Error.Code != "invalid_api_key" || openai.Error.Type != "invalid_request_error" || openai.Error.Message == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	var anthropic struct {
		Type      string
		RequestID string `json:"request_id"`
		Error     struct{ Message, Type string }
	}
	got = r.do(t, http.MethodPost, "/v1/messages/count_tokens", nil, "")
	if err := json.Unmarshal([]byte(got.body), &anthropic); err != nil {
		t.Fatal(err)
	}
	if got.status != 401 || anthropic.Type != "error" || anthropic.Error.Type != "authentication_error" || anthropic.RequestID != got.header.Get("Request-Id") || anthropic.RequestID == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
		t.Errorf("headers %v", got.header)
	}
}

// readAnswer reads one answer off a bare connection.
func readAnswer(t *testing.T, conn net.Conn) (status int, body string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(data)
}
