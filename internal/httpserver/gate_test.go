package httpserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestWhereRequestsComeFrom(t *testing.T) {
	r := start(t, Options{Doors: echoDoors, Hosts: []string{"my.proxy"}})
	own := strings.TrimPrefix(r.URL(), "http://")
	tests := []struct {
		name   string
		header map[string]string
		status int
	}{
		{"as a program does", nil, 200},
		{"by name", map[string]string{"Host": "localhost:8788"}, 200},
		{"by name, other case, no port", map[string]string{"Host": "LocalHost"}, 200},
		{"by rooted name", map[string]string{"Host": "localhost."}, 200},
		{"by IPv6", map[string]string{"Host": "[::1]:8788"}, 200},
		{"by another loopback address", map[string]string{"Host": "127.1.2.3"}, 200},
		{"by a name it is given", map[string]string{"Host": "my.proxy:443"}, 200},
		{"rebinding", map[string]string{"Host": "evil.example"}, 403},
		{"rebinding with our port", map[string]string{"Host": "evil.example:8788"}, 403},
		{"rebinding by a lookalike", map[string]string{"Host": "localhost.evil.example"}, 403},
		{"rebinding by an address as a name", map[string]string{"Host": "127.0.0.1.nip.example"}, 403},
		{"a foreign address", map[string]string{"Host": "192.0.2.1"}, 403},
		{"nonsense", map[string]string{"Host": "localhost:port"}, 403},
		{"user in the host", map[string]string{"Host": "localhost@evil.example"}, 403},
		{"own page", map[string]string{"Origin": "http://" + own}, 200},
		{"own page by name", map[string]string{"Host": "localhost:1", "Origin": "http://localhost:1"}, 200},
		{"own page behind a proxy", map[string]string{"Host": "my.proxy", "Origin": "https://my.proxy"}, 200},
		{"another page", map[string]string{"Origin": "https://evil.example"}, 403},
		{"another port", map[string]string{"Host": "localhost:1", "Origin": "http://localhost:2"}, 403},
		{"another name for us", map[string]string{"Origin": "http://localhost"}, 403},
		{"no origin to speak of", map[string]string{"Origin": "null"}, 403},
		{"an odd scheme", map[string]string{"Origin": "vscode-webview://" + own}, 403},
		{"an empty origin", map[string]string{"Origin": ""}, 403},
		{"typed by a person", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"same origin", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		{"cross site", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"same site, other origin", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"a fetch of Node's", map[string]string{"Sec-Fetch-Mode": "cors"}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, path := range []string{"/v1/models/x", "/healthz", "/"} {
				got := r.do(t, http.MethodGet, path, tt.header, "")
				if got.status != tt.status {
					t.Errorf("%s: %d %s", path, got.status, got.body)
				}
				if tt.status == 403 && !strings.Contains(got.body, `"code":"forbidden"`) {
					t.Errorf("%s: %s", path, got.body)
				}
			}
		})
	}
}

// A person may click a link to the page in web mail. Pages may not go there by
// themselves, nor into a frame, and nothing else is reached by a link.
func TestLinkOfAnotherPage(t *testing.T) {
	r := start(t, Options{})
	for name, tt := range map[string]struct {
		path   string
		header []string
		status int
	}{
		"clicked":        {"/", []string{"navigate", "document", "?1"}, 200},
		"to an API":      {"/healthz", []string{"navigate", "document", "?1"}, 403},
		"by itself":      {"/", []string{"navigate", "document", ""}, 403},
		"into a frame":   {"/", []string{"navigate", "iframe", "?1"}, 403},
		"by a script":    {"/", []string{"no-cors", "empty", ""}, 403},
		"path that ends": {"/approve", []string{"navigate", "document", "?1"}, 403},
	} {
		got := r.do(t, http.MethodGet, tt.path, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": tt.header[0], "Sec-Fetch-Dest": tt.header[1], "Sec-Fetch-User": tt.header[2]}, "")
		if got.status != tt.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

func TestSeveralOrigins(t *testing.T) {
	r := start(t, Options{})
	conn := r.dial(t)
	host := strings.TrimPrefix(r.URL(), "http://")
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: "+host+"\r\nOrigin: http://"+host+"\r\nOrigin: http://evil.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if status, body := readAnswer(t, conn); status != 403 {
		t.Errorf("%d %s", status, body)
	}
}

func TestToken(t *testing.T) {
	seen := make(chan http.Header, 1)
	r := start(t, Options{Token: "s3cret-Token", Doors: map[string]http.Handler{
		"/v1/": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }),
	}})
	tests := []struct {
		name   string
		header map[string]string
		ok     bool
	}{
		{"missing", nil, false},
		{"bearer", map[string]string{"Authorization": "Bearer s3cret-Token"}, true},
		{"bearer in other letters", map[string]string{"Authorization": "bEARER  s3cret-Token"}, true},
		{"bearer wrong", map[string]string{"Authorization": "Bearer s3cret-Tokem"}, false},
		{"bearer other case", map[string]string{"Authorization": "Bearer S3CRET-TOKEN"}, false},
		{"bearer too short", map[string]string{"Authorization": "Bearer s3cret-Toke"}, false},
		{"bearer too long", map[string]string{"Authorization": "Bearer s3cret-Token2"}, false},
		{"bearer empty", map[string]string{"Authorization": "Bearer "}, false},
		{"bare", map[string]string{"Authorization": "s3cret-Token"}, false},
		{"basic", map[string]string{"Authorization": "Basic s3cret-Token"}, false},
		{"api key", map[string]string{"x-api-key": "s3cret-Token"}, true},
		{"api key wrong", map[string]string{"x-api-key": "no"}, false},
		{"api key empty", map[string]string{"x-api-key": ""}, false},
		{"either is enough", map[string]string{"x-api-key": "no", "Authorization": "Bearer s3cret-Token"}, true},
		{"both wrong", map[string]string{"x-api-key": "no", "Authorization": "Bearer no"}, false},
		{"in the query", map[string]string{"": ""}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := "/v1/x"
			if _, ok := tt.header[""]; ok {
				path, tt.header = path+"?token=s3cret-Token&key=s3cret-Token", nil
			}
			got := r.do(t, http.MethodPost, path, tt.header, "")
			if !tt.ok {
				if got.status != 401 || strings.Contains(got.body, "s3cret") {
					t.Errorf("%d %s", got.status, got.body)
				}
				return
			}
			if got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if h := <-seen; h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
				t.Error("the door was given the token")
			}
		})
	}
	for _, path := range []string{"/metrics", "/nowhere", "/v1/messages", "/"} {
		if got := r.get(t, path); got.status != 401 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

func TestAnyKeyWithoutToken(t *testing.T) {
	r := start(t, Options{Doors: echoDoors})
	for _, header := range []map[string]string{nil, {"Authorization": "Bearer anything"}, {"x-api-key": "anything"}, {"Authorization": "Basic eA=="}} {
		if got := r.do(t, http.MethodPost, "/v1/messages", header, "x"); got.status != 200 {
			t.Errorf("%v: %d %s", header, got.status, got.body)
		}
	}
}

// FuzzGate holds that no Host but an IP address or a name of ours gets in.
func FuzzGate(f *testing.F) {
	for _, host := range []string{"localhost", "127.0.0.1:80", "[::1]:1", "evil.example", "localhost:x", "[::1%25lo]", "::1", "[::ffff:127.0.0.1]", "localhost\x00"} {
		f.Add(host, "http://"+host, "none")
	}
	g := newGate(netip.MustParseAddr("127.0.0.1"), Options{Addr: "127.0.0.1", Token: "t"})
	f.Fuzz(func(t *testing.T, host, origin, site string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		r.Header["Origin"] = []string{origin}
		r.Header["Sec-Fetch-Site"] = []string{site}
		if g.foreign(r) != "" {
			return
		}
		if !strings.Contains(strings.ToLower(host), "localhost") && !strings.HasPrefix(host, "127.") && !strings.HasPrefix(host, "[") && !strings.HasPrefix(host, "::") {
			t.Errorf("let in Host %q", host)
		}
		if !strings.Contains(strings.ToLower(origin), strings.ToLower(host)) || site != "none" && site != "same-origin" {
			t.Errorf("let in Origin %q, site %q for %q", origin, site, host)
		}
	})
}
