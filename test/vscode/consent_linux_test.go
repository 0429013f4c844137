package vscode

import (
	"net/http"
	"strings"
	"testing"
)

// TestConsent: nothing runs until the user enables the bridge. Before consent,
// HTTP requests fail with a message and no dialog appears. Then enabling asks
// for consent, and requests work.
func TestConsent(t *testing.T) {
	d := ownTestbed(t, nil)
	w := d.open(t, workspace(t, map[string]string{"a.txt": "one\n"}))
	w.palette(t, "Bridge: Status")
	w.waitForNotification(t, "Bridge: OFF")
	if left := d.bridges(); len(left) > 0 {
		t.Fatalf("the bridge runs without having been enabled: %v", left)
	}

	d.set(t, map[string]any{"bridge.enabled": true})
	c := w.waitOn(t, "Consent needed")
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		status, body := c.ask(t, http.MethodPost, path, chat{"model": "gpt-test", "max_tokens": 10, "messages": chatRequest("", "hello")["messages"]})
		if status != http.StatusForbidden || !strings.Contains(body, "consent_required") {
			t.Errorf("%s answers %d %s", path, status, body)
		}
	}
	if said := w.dialog(t); said != "" {
		t.Errorf("a dialog was shown: %q", said)
	}
	if n := len(d.vendor.received()); n > 0 {
		t.Errorf("the model got %d requests", n)
	}

	w.palette(t, "Bridge: Enable")
	w.dialogWith(t, "Copilot Bridge")
	w.press(t, "Allow")
	c = w.waitOn(t, "OK")
	if got := c.streams(t.Context(), t, chatRequest("gpt-test", "hello")).all(t); got.text != "Hello from the model." {
		t.Errorf("got %+v", got)
	}
}
