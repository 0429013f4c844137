package dashboard

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const jsonType = "application/json"

// Nobody gets in because they are of the same user, or by any page but ours.
func TestWhoMayEnter(t *testing.T) {
	s := start(t, t.TempDir(), 0, func(o *Options) { o.Token = "t0ken" })
	cookie, proof := s.logIn(t, `{"code":"`+NewCode(testKey, s.URL())+`"}`)
	own := []string{"Cookie", cookie, "Origin", s.URL(), "Content-Type", jsonType, proofHeader, proof}
	with := func(change ...string) []string { // own with other values; "" removes
		var out []string
		for i := 0; i < len(own); i += 2 {
			value := own[i+1]
			for j := 0; j < len(change); j += 2 {
				if change[j] == own[i] {
					value = change[j+1]
				}
			}
			if value != "" {
				out = append(out, own[i], value)
			}
		}
		return out
	}
	const stop = "/api/v1/approvals/NONE"
	body := `{"answer":"once"}`
	for _, tt := range []struct {
		name, method, path string
		header             []string
		status             int
		code               string
	}{
		{"a program of the same user", "GET", "/api/v1/sessions", nil, 401, "login_required"},
		{"the key", "GET", "/api/v1/sessions", []string{"Authorization", "Bearer " + testKey}, 200, ""},
		{"the key as an API key", "GET", "/api/v1/sessions", []string{"X-Api-Key", testKey}, 200, ""},
		{"the token", "GET", "/api/v1/sessions", []string{"Authorization", "Bearer t0ken"}, 200, ""},
		{"another key", "GET", "/api/v1/sessions", []string{"Authorization", "Bearer " + testKey + "x"}, 401, "login_required"},
		{"an empty key", "GET", "/api/v1/sessions", []string{"Authorization", "Bearer "}, 401, "login_required"},
		{"the key in the query", "GET", "/api/v1/sessions?key=" + testKey + "&token=t0ken", nil, 401, "login_required"},
		{"a page", "GET", "/api/v1/sessions", []string{"Cookie", cookie}, 200, ""},
		{"another cookie", "GET", "/api/v1/sessions", []string{"Cookie", cookie + "0"}, 401, "login_required"},
		{"a longer cookie", "GET", "/api/v1/sessions", []string{"Cookie", strings.Replace(cookie, "=", "=9", 1)}, 401, "login_required"},
		{"the page of another origin", "GET", "/api/v1/sessions", []string{"Cookie", cookie, "Origin", "http://evil.example"}, 403, "forbidden"},
		{"a page of another port", "GET", "/api/v1/sessions", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, 403, "forbidden"},
		{"a rebound name", "GET", "/api/v1/sessions", []string{"Cookie", cookie, "Host", "evil.example"}, 403, "forbidden"},
		{"a change by the page", "POST", stop, own, 410, "gone"},
		{"a change without an origin", "POST", stop, with("Origin", ""), 403, "forbidden"},
		{"a change from another origin", "POST", stop, with("Origin", "http://evil.example"), 403, "forbidden"},
		{"a change from nowhere", "POST", stop, with("Origin", "null"), 403, "forbidden"},
		{"a change as a form", "POST", stop, with("Content-Type", "text/plain"), 415, "invalid"},
		{"a change without a type", "POST", stop, with("Content-Type", ""), 415, "invalid"},
		{"a change without proof", "POST", stop, with(proofHeader, ""), 403, "proof_required"},
		{"a change with another proof", "POST", stop, with(proofHeader, proof+"0"), 403, "proof_required"},
		{"a proof without a login", "POST", stop, with("Cookie", ""), 401, "login_required"},
		{"a change with the key", "POST", stop, []string{"Authorization", "Bearer " + testKey, "Content-Type", jsonType}, 410, "gone"},
		{"models for the page", "GET", "/v1/models", []string{"Cookie", cookie}, 200, ""},
		{"models with the key", "GET", "/v1/models", []string{"Authorization", "Bearer " + testKey}, 401, "invalid_api_key"},
	} {
		got := s.do(t, tt.method, tt.path, body, tt.header...)
		if got.status != tt.status || got.errorCode() != tt.code {
			t.Errorf("%s: %d %s", tt.name, got.status, got.body)
		}
		if tt.status == 401 && got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", tt.name)
		}
	}
	if said := s.log.String(); strings.Contains(said, testKey) || strings.Contains(said, "t0ken") || strings.Contains(said, proof) {
		t.Errorf("the log has a secret: %s", said)
	}
}

// Every route needs a login.
func TestEveryRouteNeedsALogin(t *testing.T) {
	s := start(t, t.TempDir(), 0, nil)
	for _, r := range slices.Concat(s.api.routes(), s.api.recordRoutes()) {
		method, path, _ := strings.Cut(r.pattern, " ")
		if got := s.do(t, method, "/api/v1"+path, "{}", "Content-Type", jsonType, "Origin", s.URL()); got.status != 401 {
			t.Errorf("%s: %d %s", r.pattern, got.status, got.body)
		}
	}
	for _, path := range []string{"/api/v1/", "/api/v1/nothing", "/api/v1//sessions", "/api//v1/sessions", "/api/v1/./sessions", "/api/v1/%73essions"} {
		if got := s.do(t, "GET", path, ""); got.status != 401 && got.status/100 != 3 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

func TestCodes(t *testing.T) {
	s := start(t, t.TempDir(), 0, func(o *Options) { o.Token = "t0ken" })
	old := func(key, url string, age time.Duration) string {
		said := strconv.FormatInt(time.Now().Add(-age).UnixMilli(), 10) + ".X"
		return said + "." + sign(key, "code", url, said)
	}
	good := NewCode(testKey, s.URL())
	s.logIn(t, `{"code":"`+good+`"}`)
	for name, body := range map[string]string{
		"used":               `{"code":"` + good + `"}`,
		"of another key":     `{"code":"` + NewCode("another", s.URL()) + `"}`,
		"for another server": `{"code":"` + NewCode(testKey, "http://127.0.0.1:1") + `"}`,
		"of before":          `{"code":"` + old(testKey, s.URL(), time.Hour) + `"}`,
		"of tomorrow":        `{"code":"` + old(testKey, s.URL(), -24*time.Hour) + `"}`,
		"of nothing":         `{}`,
		"of dots":            `{"code":"..."}`,
		"of another token":   `{"token":"t0kem"}`,
	} {
		got := s.do(t, "POST", "/login", body, "Content-Type", jsonType, "Origin", s.URL())
		if got.status != 401 || got.header.Get("Set-Cookie") != "" {
			t.Errorf("a code %s: %d %s", name, got.status, got.body)
		}
	}
	for name, header := range map[string][]string{"no origin": {"Content-Type", jsonType}, "a form": {"Origin", s.URL(), "Content-Type", "application/x-www-form-urlencoded"}} {
		if got := s.do(t, "POST", "/login", `{"token":"t0ken"}`, header...); got.status != 403 && got.status != 415 || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

// A login survives a restart; a code from before it does not, since nobody knows
// whether it was used.
func TestRestart(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, func(o *Options) { o.Token = "t0ken" })
	cookie, proof := s.logIn(t, `{"token":" t0ken\n"}`)
	code := NewCode(testKey, s.URL())
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, home, s.port(), func(o *Options) { o.Token = "t0ken" })
	got := again.do(t, "POST", "/api/v1/approvals/NONE", `{}`, "Cookie", cookie, "Origin", again.URL(), "Content-Type", jsonType, proofHeader, proof)
	if got.status != 410 {
		t.Errorf("after a restart: %d %s", got.status, got.body)
	}
	again.api.login.began = time.Now() // however fast the restart was
	if got := again.do(t, "POST", "/login", `{"code":"`+code+`"}`, "Content-Type", jsonType, "Origin", again.URL()); got.status != 401 {
		t.Errorf("a code from before: %d %s", got.status, got.body)
	}
	got = again.do(t, "POST", "/logout", "", "Cookie", cookie, "Origin", again.URL())
	if got.status != 200 || !strings.HasPrefix(got.header.Get("Set-Cookie"), "copilot-bridge-login-"+strconv.Itoa(again.port())+"=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict") {
		t.Errorf("logout: %d %v", got.status, got.header)
	}
	if got := again.do(t, "POST", "/logout", "", "Cookie", cookie); got.status != 403 {
		t.Errorf("logout by a program: %d", got.status)
	}
}

// After ten wrong attempts a minute passes before the next; pages that are logged in
// stay so.
func TestWrongAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogin(Options{Key: testKey, Token: "t0ken", URL: func() string { return "http://127.0.0.1:1" }})
		from := func(addr, secret string) error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.RemoteAddr = addr
			r.Header.Set("Authorization", "Bearer "+secret)
			return l.admit(r)
		}
		status := func(err error) int {
			if err == nil {
				return 200
			}
			var r *refusal
			if !errors.As(err, &r) {
				t.Fatal(err)
			}
			return r.status
		}
		for i := range maxWrong {
			if got := status(from("127.0.0."+strconv.Itoa(i+1)+":5", "wrong")); got != 401 {
				t.Errorf("attempt %d: %d", i, got)
			}
		}
		for addr, want := range map[string]int{"127.9.9.9:5": 429, "[::1]:7": 429, "192.0.2.1:5": 200} {
			if got := status(from(addr, "t0ken")); got != want {
				t.Errorf("from %s: %d", addr, got)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "127.0.0.1:5"
		r.AddCookie(&http.Cookie{Name: l.cookieName(), Value: l.value(r, time.Now().Add(time.Hour).Unix())})
		if err := l.admit(r); err != nil {
			t.Errorf("a page: %v", err)
		}
		time.Sleep(wrongWithin + time.Second)
		if got := status(from("127.0.0.1:5", testKey)); got != 200 {
			t.Errorf("after a minute: %d", got)
		}
		time.Sleep(loginTime)
		if err := l.admit(r); status(err) != 401 {
			t.Errorf("a page after its time: %v", err)
		}
		for i := range maxPlaces + 5 { // which fail closed, and are forgotten
			_ = from("192.0.2."+strconv.Itoa(i)+":"+"1", "wrong")
			_ = from("2001:db8::"+strconv.FormatInt(int64(i), 16)+":1", "wrong")
		}
		if len(l.wrong) > maxPlaces {
			t.Errorf("%d places are kept", len(l.wrong))
		}
	})
}
