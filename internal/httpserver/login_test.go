package httpserver

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const anyToken = "t0ken"

// withLogin is a server with a token whose clients are of one user after the other.
func withLogin(t *testing.T) (*running, *atomic.Int64) {
	t.Helper()
	user := &atomic.Int64{}
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" {
			t.Error("a door sees the cookie")
		}
	})
	return start(t, Options{Token: anyToken, Doors: map[string]http.Handler{"GET /v1/models": ok, "POST /v1/chat/completions": ok, "POST /rpc": ok},
		peer: func(net.Conn) (int, error) { return int(user.Load()), nil }}), user
}

// logIn sends the form as a browser does.
func (r *running) logIn(t *testing.T, token string) answer {
	t.Helper()
	return r.do(t, http.MethodPost, "/login", map[string]string{"Accept": browser, "Content-Type": "application/x-www-form-urlencoded", "Origin": r.URL(), "Sec-Fetch-Site": "same-origin"},
		url.Values{"token": {token}}.Encode())
}

func TestLogin(t *testing.T) {
	r, user := withLogin(t)
	got := r.logIn(t, " "+anyToken+"\n")
	cookie := got.header.Get("Set-Cookie")
	if got.status != 303 || got.header.Get("Location") != "/" || strings.Contains(cookie, anyToken) || !strings.HasSuffix(cookie, "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict") {
		t.Fatalf("%d %v", got.status, got.header)
	}
	value, _, _ := strings.Cut(cookie, ";")
	own := map[string]string{"Cookie": value, "Origin": r.URL()}
	for _, tt := range []struct {
		name, method, path string
		header             map[string]string
		status             int
	}{
		{"the page", "GET", "/", map[string]string{"Cookie": value, "Accept": browser}, 200},
		{"models", "GET", "/v1/models", map[string]string{"Cookie": value}, 200},
		{"chat", "POST", "/v1/chat/completions", own, 200},
		{"chat without an origin", "POST", "/v1/chat/completions", map[string]string{"Cookie": value}, 401},
		{"chat from another site", "POST", "/v1/chat/completions", map[string]string{"Cookie": value, "Origin": "http://evil.example"}, 403},
		{"chat from another port", "POST", "/v1/chat/completions", map[string]string{"Cookie": value, "Sec-Fetch-Site": "same-site"}, 403},
		{"the tool bus", "POST", "/rpc", own, 401},
		{"another cookie", "GET", "/v1/models", map[string]string{"Cookie": value + "0"}, 401},
		{"a later cookie", "GET", "/v1/models", map[string]string{"Cookie": strings.Replace(value, "=", "=9", 1)}, 401},
		{"none", "GET", "/v1/models", nil, 401},
	} {
		if got := r.do(t, tt.method, tt.path, tt.header, ""); got.status != tt.status {
			t.Errorf("%s: %d %s", tt.name, got.status, got.body)
		}
	}
	if page := r.do(t, "GET", "/", map[string]string{"Cookie": value, "Accept": browser}, ""); !strings.Contains(page.body, `action="/logout"`) {
		t.Errorf("the page cannot log out: %s", page.body)
	}
	user.Store(7)
	if got := r.do(t, "GET", "/v1/models", map[string]string{"Cookie": value}, ""); got.status != 401 {
		t.Errorf("the cookie in another user's hands: %d", got.status)
	}
	if got := r.do(t, "POST", "/logout", own, ""); got.status != 303 || !strings.HasPrefix(got.header.Get("Set-Cookie"), loginCookie+"=; Path=/; Max-Age=0;") {
		t.Errorf("logout: %d %v", got.status, got.header)
	}
	if got := r.do(t, "POST", "/logout", nil, ""); got.status != 403 || !strings.Contains(got.body, "Only the first page logs out.") {
		t.Errorf("logout without an origin: %d %s", got.status, got.body)
	}
}

func TestLoginRefuses(t *testing.T) {
	r, _ := withLogin(t)
	for _, token := range []string{"wrong", "", strings.Repeat("x", maxToken)} {
		got := r.logIn(t, token)
		if got.status != 401 || got.header.Get("Set-Cookie") != "" || !strings.Contains(got.body, "That is not the token of this bridge. It is what COPILOT_BRIDGE_TOKEN was when it was started.") {
			t.Errorf("%.9q: %d %s", token, got.status, got.body)
		}
	}
	got := r.do(t, http.MethodPost, "/login", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, "token="+anyToken)
	if got.status != 403 || !strings.Contains(got.body, "Only the form of the first page logs in.") || got.header.Get("Set-Cookie") != "" {
		t.Errorf("without an origin: %d %s", got.status, got.body)
	}
	without := start(t, Options{})
	if got := without.do(t, http.MethodPost, "/login", nil, ""); got.status != 404 {
		t.Errorf("without a token there is %d", got.status)
	}
}

// A cookie ends after twelve hours.
func TestLoginEnds(t *testing.T) {
	r, _ := withLogin(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]bool{time.Hour: true, -time.Second: false} {
		one := request.Clone(t.Context())
		one.AddCookie(&http.Cookie{Name: loginCookie, Value: r.logins.value(one, time.Now().Add(after).Unix())})
		if got := r.logins.admits(one); got != want {
			t.Errorf("a cookie until %s from now: %v", after, got)
		}
	}
}
