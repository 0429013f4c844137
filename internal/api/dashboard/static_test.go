package dashboard

import (
	"strings"
	"testing"
)

func TestStatic(t *testing.T) {
	s := start(t, t.TempDir(), 0, func(o *Options) { o.Token = "t0ken" })
	page := s.do(t, "GET", "/", "", "Accept", "text/html")
	if page.status != 200 || page.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(page.body, "<title>") {
		t.Fatalf("%d %v", page.status, page.header)
	}
	for name, want := range map[string]string{"Content-Security-Policy": pagePolicy, "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
		if got := page.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	again := s.do(t, "GET", "/", "", "Accept", "text/html", "If-None-Match", page.header.Get("ETag"))
	if again.status != 304 || again.body != "" {
		t.Errorf("asked again: %d", again.status)
	}
	if text := s.do(t, "GET", "/", "", "Accept", "*/*"); text.status != 401 || !strings.Contains(text.body, "asks for a token") {
		t.Errorf("for programs: %d %s", text.status, text.body)
	}
	for name := range s.api.pages.files {
		if got := s.do(t, "GET", "/assets/"+name, ""); got.status != 200 || got.header.Get("ETag") == "" {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	for _, path := range []string{"/assets/", "/assets/static.go", "/assets/../dashboard.go", "/assets/%2e%2e/dashboard.go", "/assets/..%2fdashboard.go", "/assets/%2e%2e%2f%2e%2e%2fgo.mod", "/assets//etc/passwd", "/assets/static/index.html"} {
		if got := s.do(t, "GET", path, "", "Authorization", "Bearer t0ken"); got.status != 404 && got.status/100 != 3 {
			t.Errorf("%s: %d %.80s", path, got.status, got.body)
		}
	}
}
