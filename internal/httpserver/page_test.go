package httpserver

import (
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

// TestPage: browsers get the page that the server was given, also without the token.
func TestPage(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			t.Error("the page sees credentials")
		}
		_, _ = w.Write([]byte("the page"))
	})
	for _, token := range []string{"", "t0ken"} {
		r := start(t, Options{Token: token, Page: page})
		got := r.do(t, http.MethodGet, "/", map[string]string{"Accept": browser, "Cookie": "a=b", "Authorization": "Bearer x"}, "")
		if got.status != 200 || got.body != "the page" {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := r.do(t, http.MethodGet, "/", map[string]string{"Accept": browser, "Host": "evil.example"}, ""); got.status != 403 {
			t.Errorf("for another host: %d", got.status)
		}
	}
	r := start(t, Options{})
	if got := r.do(t, http.MethodGet, "/", map[string]string{"Accept": browser}, ""); got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("without a page: %v", got.header)
	}
}

// TestOpen: handlers that admit by themselves are asked by everybody but other users,
// and see the credentials.
func TestOpen(t *testing.T) {
	open := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+" "+strconv.Itoa(wire.User(r.Context())))
	})
	var log journal
	user := os.Geteuid()
	r := start(t, Options{Token: "t0ken", Open: map[string]http.Handler{"/open/": open, "GET /once/{token}": open}, Doors: echoDoors, Logger: log.logger(),
		LoggedIn: func(r *http.Request) bool { return r.Header.Get("Cookie") == "in" }, peer: func(net.Conn) (int, error) { return user, nil }})
	for _, tt := range []struct {
		path, host, cookie string
		status             int
	}{
		{"/open/x", "", "", 200}, {"/once/s3cret", "", "", 200}, {"/once/s3cret", "evil.example", "", 403}, {"/once/s3cret/more", "", "", 401}, {"//once//s3cret", "", "", 200}, {"/open/x", "evil.example", "", 403}, {"//open//x", "", "", 200},
		{"/v1/models/m", "", "", 401}, {"/v1/models/m", "", "in", 200}, {"/v1/models/m", "", "out", 401}, {"/rpc", "", "in", 401},
	} {
		header := map[string]string{"Authorization": "Bearer x", "Cookie": tt.cookie}
		if tt.host != "" {
			header["Host"] = tt.host
		}
		got := r.do(t, http.MethodGet, tt.path, header, "")
		if got.status != tt.status || tt.status == 200 && tt.cookie == "" && got.body != "Bearer x "+strconv.Itoa(user) {
			t.Errorf("%+v: %d %s", tt, got.status, got.body)
		}
	}
	other := start(t, Options{Open: map[string]http.Handler{"/open/": open}, Page: open, peer: func(net.Conn) (int, error) { return user + 1, nil }})
	for _, path := range []string{"/open/x", "/"} {
		if got := other.do(t, http.MethodGet, path, map[string]string{"Accept": browser}, ""); got.status != 403 {
			t.Errorf("another user at %s: %d %s", path, got.status, got.body)
		}
	}
	if err := r.finish(t); err != nil {
		t.Error(err)
	}
	if said := log.String(); strings.Contains(said, "s3cret") || !strings.Contains(said, `"path":"/once/{token}"`) {
		t.Errorf("logged %s", said)
	}
}

func TestPageAsText(t *testing.T) {
	about := About{Version: "v1.2", Answers: "GitHub Copilot", Workspace: "/w", Model: `evil"; rm -rf ~; '`}
	r := start(t, Options{Token: "t0ken", About: func() About { return about }, Notice: "Not Copilot."})
	got := r.do(t, http.MethodGet, "/", map[string]string{"Accept": "*/*", "X-Api-Key": "t0ken"}, "")
	if got.status != 200 || got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Fatalf("%d %v", got.status, got.header)
	}
	want := strings.ReplaceAll(`Copilot Bridge is running, version v1.2.

! Not Copilot.

Answers come from: GitHub Copilot
Workspace:         /w (read and write, as the policy allows)
Clients need:      the token; the examples expect it in COPILOT_BRIDGE_TOKEN
Models:            @@/v1/models
Health, metrics:   @@/healthz  @@/metrics

Coding agents: claude, codex, opencode, qwen, cline

  copilot-bridge launch claude

curl

  curl @@/v1/chat/completions \
    -H "Content-Type: application/json" \
    -H "Authorization: Bearer $COPILOT_BRIDGE_TOKEN" \
    -d '{"model": "MODEL", "messages": [{"role": "user", "content": "Say hello"}]}'

OpenAI SDK

  import os
  from openai import OpenAI
  client = OpenAI(base_url="@@/v1", api_key=os.environ["COPILOT_BRIDGE_TOKEN"])
  answer = client.chat.completions.create(model="MODEL", messages=[{"role": "user", "content": "Say hello"}])
  print(answer.choices[0].message.content)

Claude Code

  export ANTHROPIC_BASE_URL=@@
  export ANTHROPIC_AUTH_TOKEN=$COPILOT_BRIDGE_TOKEN
  export ANTHROPIC_MODEL=MODEL
  export ANTHROPIC_DEFAULT_HAIKU_MODEL=MODEL
  claude

Codex, in ~/.codex/config.toml

  model = "MODEL"
  model_provider = "copilot-bridge"

  [model_providers.copilot-bridge]
  name = "Copilot Bridge"
  base_url = "@@/v1"
  wire_api = "responses"
  env_key = "COPILOT_BRIDGE_TOKEN"
`, "@@", r.URL())
	if got.body != want {
		t.Errorf("got\n%s\nwant\n%s", got.body, want)
	}
}

// Values with the names of others stay as they are, and a value that is missing leaves
// no line behind.
func TestPageWithOddValues(t *testing.T) {
	about := About{Version: "{base}", Workspace: "/{notice}\x1b[8m\n{key}", ReadOnly: true, Model: "m"}
	r := start(t, Options{About: func() About { return about }})
	got := r.do(t, http.MethodGet, "/", map[string]string{"Accept": "*/*"}, "")
	head := "Copilot Bridge is running, version {base}.\n\nWorkspace:         /{notice}?[8m?{key} (read-only)\nClients need:      no key; any will be accepted\n"
	if got.status != 200 || !strings.HasPrefix(got.body, head) {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, part := range []string{"\n    -H \"Content-Type: application/json\" \\\n    -d '{\"model\": \"m\"", "\n\n  from openai", `api_key="any")`, "AUTH_TOKEN=any\n"} {
		if !strings.Contains(got.body, part) {
			t.Errorf("lacks %q:\n%s", part, got.body)
		}
	}
	if strings.Contains(got.body, "COPILOT_BRIDGE_TOKEN") || !strings.HasSuffix(got.body, "wire_api = \"responses\"\n") {
		t.Errorf("%s", got.body)
	}
}

func TestPageIsLocked(t *testing.T) {
	r := start(t, Options{Token: "t0ken", About: func() About { return About{Version: "v1.2", Workspace: "/secret"} }, Notice: "n"})
	for _, accept := range []string{browser, "*/*"} {
		got := r.do(t, http.MethodGet, "/", map[string]string{"Accept": accept}, "")
		if got.status != 401 || !strings.Contains(got.body, "asks for a token") || got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		for _, secret := range []string{"t0ken", "v1.2", "/secret", "wire_api"} {
			if strings.Contains(got.body, secret) {
				t.Errorf("tells %q", secret)
			}
		}
	}
}
