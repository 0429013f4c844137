package httpserver

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

func TestPage(t *testing.T) {
	about := About{Version: "v1.2", Answers: "GitHub <Copilot>", Workspace: "/home/a & b/\x1b[31m", ReadOnly: true, Model: "gpt-5.2"}
	r := start(t, Options{About: func() About { return about }, Notice: "Answers are not <Copilot's>."})
	host := map[string]string{"Accept": browser, "Host": "localhost:9"}
	got := r.do(t, http.MethodGet, "/", host, "")
	if got.status != 200 || got.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", got.status, got.header)
	}
	for _, part := range []string{
		"version v1.2", "GitHub &lt;Copilot&gt;", "/home/a &amp; b/?[31m", "change nothing", "Answers are not &lt;Copilot&#39;s&gt;.", "no key",
		"curl http://localhost:9/v1/chat/completions", `base_url="http://localhost:9/v1"`, `api_key="any"`,
		"ANTHROPIC_BASE_URL=http://localhost:9\n", "ANTHROPIC_AUTH_TOKEN=any\n", "ANTHROPIC_MODEL=gpt-5.2\n",
		"wire_api = \"responses\"", `model = "gpt-5.2"`, `href="/v1/models"`, `lang="en"`, "copilot-bridge launch claude", "<code>agent/gpt-5.2</code> is Copilot's agent", `data-model="gpt-5.2"`,
	} {
		if !strings.Contains(got.body, part) {
			t.Errorf("lacks %q", part)
		}
	}
	for _, part := range []string{"COPILOT_BRIDGE_TOKEN", "src=", "url(", "onclick", "innerHTML", "<link", "/login", "\x1b"} {
		if strings.Contains(got.body, part) {
			t.Errorf("has %q", part)
		}
	}
	policy := got.header.Get("Content-Security-Policy")
	for _, tag := range []string{"style", "script"} {
		found := regexp.MustCompile(`(?s)<` + tag + `>(.*)</` + tag + `>`).FindStringSubmatch(got.body)
		hash := sha256.Sum256([]byte(found[1]))
		if !strings.Contains(policy, "; "+tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"';") {
			t.Errorf("the policy %q does not admit the %s", policy, tag)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") {
		t.Errorf("policy %q", policy)
	}
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("policy %q", policy)
	}
	if t.Failed() {
		t.Log(got.body)
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

func TestPageIsLocked(t *testing.T) {
	r := start(t, Options{Token: "t0ken", About: func() About { return About{Version: "v1.2", Workspace: "/secret"} }, Notice: "n"})
	for _, accept := range []string{browser, "*/*"} {
		got := r.do(t, http.MethodGet, "/", map[string]string{"Accept": accept}, "")
		if got.status != 401 || !strings.Contains(got.body, "asks for a token") || strings.Contains(got.body, `action="/login"`) != (accept == browser) || got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		for _, secret := range []string{"t0ken", "v1.2", "/secret", "wire_api"} {
			if strings.Contains(got.body, secret) {
				t.Errorf("tells %q", secret)
			}
		}
	}
}
