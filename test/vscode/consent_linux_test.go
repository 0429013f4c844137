package vscode

import (
	"net/http"
	"strings"
	"testing"
)

// TestConsent: nothing runs until it is enabled; before consent HTTP is told
// so and nobody sees a dialog; then enable asks, and it works.
func TestConsent(t *testing.T) {
	d := ownDesk(t, nil)
	w := d.open(t, workspace(t, map[string]string{"a.txt": "one\n"}))
	w.palette(t, "Bridge: Status")
	w.notified(t, "Bridge: OFF")
	if left := d.bridges(); len(left) > 0 {
		t.Fatalf("it runs without having been enabled: %v", left)
	}

	d.set(t, map[string]any{"bridge.enabled": true})
	c := w.on(t, "Consent needed")
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		status, body := c.ask(t, http.MethodPost, path, chat{"model": "gpt-test", "max_tokens": 10, "messages": say("", "hello")["messages"]})
		if status != http.StatusForbidden || !strings.Contains(body, "consent_required") {
			t.Errorf("%s answers %d %s", path, status, body)
		}
	}
	if said := w.dialog(t); said != "" {
		t.Errorf("a dialog was raised: %q", said)
	}
	if n := len(d.vendor.heard()); n > 0 {
		t.Errorf("the model was asked %d times", n)
	}

	w.palette(t, "Bridge: Enable")
	w.dialogWith(t, "Copilot Bridge")
	w.press(t, "Allow")
	c = w.on(t, "OK")
	if got := c.streams(t.Context(), t, say("gpt-test", "hello")).all(t); got.text != "Hello from the model." {
		t.Errorf("got %+v", got)
	}
}
