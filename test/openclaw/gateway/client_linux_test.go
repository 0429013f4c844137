package gateway

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/gateway"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// patience is long because test machines are busy.
const patience = 8 * time.Minute

// fixture is a user with some memory and a running gateway.
type fixture struct {
	t       *testing.T // of TestClient: gateways live as long as it runs
	user    *openclawtest.User
	gateway *openclawtest.Gateway
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{t: t, user: openclawtest.NewUser(t)}
	h.user.Configure(t, map[string]any{
		"logging": map[string]any{"file": filepath.Join(h.user.Home, "openclaw.log")},
		"gateway": map[string]any{"mode": "local", "trustedProxies": []string{"127.0.0.1"}}})
	h.write(t, "MEMORY.md", "# Birds\n\nThe canary sings on otter.example at dawn.\n")
	h.write(t, "USER.md", "Tabs, never spaces.\n")
	h.write(t, "memory/2026-01-01.md", "# Deploy notes\n\nStaging lives on heron.example.\n")
	h.gateway = h.user.Start(t)
	return h
}

// write writes a file into the workspace of OpenClaw's agent.
func (h *fixture) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(h.user.Home, ".openclaw", "workspace", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h *fixture) client(t *testing.T, url string, change ...func(*gateway.Options)) *gateway.Client {
	t.Helper()
	o := gateway.Options{URL: url, Token: h.gateway.Token, Version: "1", Scopes: []string{"operator.read", "operator.write"}, First: 50 * time.Millisecond, Most: time.Second}
	for _, c := range change {
		c(&o)
	}
	c := gateway.New(o)
	t.Cleanup(c.Close)
	return c
}

func (h *fixture) url() string { return "ws" + strings.TrimPrefix(h.gateway.URL, "http") }

// eventually repeats a call until it succeeds.
func eventually(t *testing.T, c *gateway.Client, method string, params any) json.RawMessage {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		got, err := c.Call(t.Context(), method, params)
		if err == nil {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestClient tests the client with the real gateway. The subtests share one,
// because it takes half a minute to start; the last ones stop it.
func TestClient(t *testing.T) {
	h := newFixture(t)
	t.Run("hello", h.hello)
	t.Run("wrong token", h.wrongToken)
	t.Run("cut", h.cut)
	t.Run("garbage", h.garbage)
	t.Run("device", h.device)
	t.Run("memory", h.memory)
	t.Run("validate", h.validate)
	t.Run("restart", h.restart)
	t.Run("stopped", h.stopped)
}

func (h *fixture) hello(t *testing.T) {
	c := h.client(t, h.url())
	hello, err := c.Hello(t.Context())
	if err != nil || hello.Server.Version != openclawtest.Version || hello.Policy.TickIntervalMs <= 0 || hello.Policy.MaxPayload <= 0 ||
		!slices.Contains(hello.Features.Methods, "memory.search") || !slices.Equal(hello.Auth.Scopes, []string{"operator.read", "operator.write"}) {
		t.Errorf("%+v, %v", hello, err)
	}
	var health struct {
		OK             bool
		DefaultAgentID string
	}
	answer, err := c.Call(t.Context(), "health", map[string]any{})
	if err := errors.Join(err, json.Unmarshal(answer, &health)); err != nil || !health.OK || health.DefaultAgentID != "main" {
		t.Errorf("%s, %v", answer, err)
	}
	for method, params := range map[string]any{"agents.files.get": map[string]any{"agentId": "main", "name": "NONE.md"}, "memory.search": map[string]any{}, "sessions.create": 7} {
		if _, err := c.Call(t.Context(), method, params); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%s: %v", method, err)
		}
	}
	// Scopes that were not requested on connecting are not granted later.
	reader := h.client(t, h.url(), func(o *gateway.Options) { o.Scopes = nil })
	if _, err := reader.Call(t.Context(), "sessions.create", map[string]any{"key": "agent:main:no", "agentId": "main"}); err == nil || !strings.Contains(err.Error(), "operator.write") {
		t.Errorf("%v", err)
	}
}

// A wrong token fails the client at once, without a second connection.
func (h *fixture) wrongToken(t *testing.T) {
	r := newRelay(t, h.gateway)
	c := h.client(t, r.url(), func(o *gateway.Options) { o.Token = "not-the-token" })
	for range 3 {
		_, err := c.Call(t.Context(), "health", map[string]any{})
		e := bridge.AsError(err)
		if e == nil || e.Code != bridge.CodeUnauthenticated || !strings.Contains(e.Error(), "OpenClaw's gateway refuses us") || !strings.Contains(e.Remedy, "OPENCLAW_GATEWAY_TOKEN") {
			t.Fatalf("%v: %+v", err, e)
		}
		if strings.Contains(e.Error(), "not-the-token") || strings.Contains(e.Error(), h.gateway.Token) {
			t.Errorf("a token is in the error: %v", e)
		}
	}
	if n := r.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// When the connection is cut, pending calls fail and are not repeated. The next
// call makes another connection.
func (h *fixture) cut(t *testing.T) {
	r := newRelay(t, h.gateway)
	c := h.client(t, r.url())
	eventually(t, c, "health", map[string]any{})
	asked := make(chan error, 1)
	go func() {
		// The call waits for a run that does not exist, until its time-out.
		_, err := c.Call(t.Context(), "agent.wait", map[string]any{"runId": "none", "timeoutMs": 60_000})
		asked <- err
	}()
	<-time.After(300 * time.Millisecond) // the call may not have started yet: it must fail either way
	r.cut()
	if err := <-asked; bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("the pending call: %v", err)
	}
	eventually(t, c, "health", map[string]any{})
	if n := r.connections(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// Unknown messages between the gateway's frames are ignored. Bytes that are no
// frame cost one connection.
func (h *fixture) garbage(t *testing.T) {
	r := newRelay(t, h.gateway)
	c := h.client(t, r.url())
	eventually(t, c, "health", map[string]any{})
	for _, text := range []string{"hello?", "{{{", "[]", `{"type":"res","id":"77","ok":true}`, `{"type":"event"}`, `{"type":"weather"}`, ""} {
		r.inject(t, textFrame(text))
		if _, err := c.Call(t.Context(), "health", map[string]any{}); err != nil {
			t.Errorf("after %q: %v", text, err)
		}
	}
	if n := r.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	r.inject(t, []byte("\xff\xff\xff\xff this is no frame"))
	eventually(t, c, "health", map[string]any{})
	if n := r.connections(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// A client on another machine must be approved. Then the gateway gives it a
// device token that works without the shared one.
func (h *fixture) device(t *testing.T) {
	url, path := remoteURL(t, h.gateway), filepath.Join(t.TempDir(), "device.json")
	as := func(token string) *gateway.Client {
		id, err := gateway.LoadIdentity(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return h.client(t, url, func(o *gateway.Options) { o.Identity, o.Token = id, token })
	}
	_, err := as(h.gateway.Token).Hello(t.Context())
	if e := bridge.AsError(err); e == nil || e.Code != bridge.CodeUnauthenticated || !strings.Contains(e.Error(), "pairing required") || !strings.Contains(e.Remedy, "openclaw devices approve") {
		t.Fatalf("%v", err)
	}
	var devices struct {
		Pending []struct{ RequestID, DeviceID, DisplayName string }
	}
	if out := h.user.Run(t, "devices", "list", "--json"); json.Unmarshal([]byte(out), &devices) != nil || len(devices.Pending) != 1 || devices.Pending[0].DisplayName != "copilot-bridge" {
		t.Fatalf("%s", out)
	}
	h.user.Run(t, "devices", "approve", devices.Pending[0].RequestID)
	for _, token := range []string{h.gateway.Token, "", "an-old-token"} {
		hello, err := as(token).Hello(t.Context())
		if err != nil || hello.Auth.DeviceToken == "" {
			t.Errorf("with a token of %d bytes: %v", len(token), err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := h.client(t, url, func(o *gateway.Options) { o.Token = "wrong" }).Hello(t.Context()); bridge.CodeOf(err) != bridge.CodeUnauthenticated {
		t.Errorf("without a device: %v", err)
	}
}

// A gateway stops and slowly comes back. While it starts it rejects connections
// and says when to try again. The client connects as soon as it can.
func (h *fixture) restart(t *testing.T) {
	var log programtest.Output
	c := h.client(t, h.url(), func(o *gateway.Options) {
		o.First, o.Most, o.Logger = 100*time.Millisecond, 100*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))
	})
	eventually(t, c, "health", map[string]any{})
	h.gateway.Stop(t)
	if _, err := c.Call(t.Context(), "health", map[string]any{}); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("%v", err)
	}
	h.gateway = h.user.Launch(h.t, h.gateway.Port, h.gateway.Token)
	eventually(t, c, "health", map[string]any{}) // called again and again meanwhile
	h.gateway.Ready(t)
	for _, reason := range []string{"connection refused", "gateway starting"} {
		if !strings.Contains(log.String(), reason) {
			t.Errorf("the client was never in the state %q", reason)
		}
	}
}
