package fleet

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestLabels(t *testing.T) {
	offers := Offers([]string{"gpu=big", "trusted"}, map[string]string{"os": "linux", "gpu": "huge", "trusted": "very", "fast": ""})
	if !slices.Equal(offers, []string{"gpu=big", "trusted", "fast", "os=linux"}) {
		t.Errorf("offers %q", offers)
	}
	for asked, want := range map[string]bool{"": true, "gpu=big": true, "gpu": true, "gpu=huge": false, "os=linux,fast": true, "os=linux,slow": false, "o": false, "trusted": true, "trusted=very": false} {
		var labels []string
		if asked != "" {
			labels = strings.Split(asked, ",")
		}
		if Fits(offers, labels) != want {
			t.Errorf("%q fits: %t", asked, !want)
		}
	}
}

// Nothing that is not of this schema is taken, and who sent it learns why.
func TestDecode(t *testing.T) {
	for text, want := range map[string]bridge.Code{
		`{"schema":1,"kind":"drain"}`: "", `{"schema":2,"kind":"drain"}`: bridge.CodeUnsupported, `{"kind":"drain"}`: bridge.CodeUnsupported,
		`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"data":"eyJzY2hlbWEiOjF9"}}`: bridge.CodeUnsupported,
		`{"stream":"OBJ_w-x","seq":1}`: bridge.CodeUnsupported, "": bridge.CodeInvalid, "[]": bridge.CodeInvalid, `{"schema":1,"kind":7}`: bridge.CodeInvalid,
	} {
		var o Order
		if err := Decode([]byte(text), &o); bridge.CodeOf(err) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A refusal travels without its cause, which may hold anything.
func TestRefusal(t *testing.T) {
	e := Refusal(&bridge.Error{Code: bridge.CodeBusy, Message: "no", Remedy: "later", Cause: errors.New("secret")})
	if e.Code != bridge.CodeBusy || e.Error() != "no" || e.Remedy != "later" {
		t.Errorf("%+v", e)
	}
}

func TestInvitationLine(t *testing.T) {
	line, err := Invitation{ID: "i", URLs: []string{"tls://h:1"}, JWT: "secret-jwt", Seed: "secret-seed"}.Line()
	if err != nil {
		t.Fatal(err)
	}
	for _, pasted := range []string{"  " + line + "\n", `"` + line + `"`, "'" + line + "'\r\n", line[:30] + "\n" + line[30:60] + "\r\n  " + line[60:], "good until 12:00; it is a secret\n" + line + "\n"} {
		if i, err := ParseInvitation(pasted); err != nil || i.Seed != "secret-seed" {
			t.Errorf("%q: %+v, %v", pasted, i, err)
		}
	}
	for _, bad := range []string{"", "cbfleet1.", "cbfleet2." + line[9:], line[:len(line)-5], line + "!", strings.ToUpper(line)} {
		if _, err := ParseInvitation(bad); bridge.CodeOf(err) != bridge.CodeInvalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, bad := range []string{"nats://h:4222", "ws://h:80", "h:4222", "tls://", "tls://user:pass@h:4222", "tls://token@h:4222"} {
		if err := CheckURLs([]string{bad}); bridge.CodeOf(err) != bridge.CodeInvalid || strings.Contains(err.Error(), "pass") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestReconnectDelay(t *testing.T) {
	for attempts := range 40 {
		if d := reconnectDelay(attempts); d <= 0 || d > 5*time.Second || attempts == 0 && d > 50*time.Millisecond {
			t.Errorf("%d: %s", attempts, d)
		}
	}
}

func TestParseWorker(t *testing.T) {
	for wanted, want := range map[string][]string{"any": nil, "gpu": {"gpu"}, "gpu=yes, os=linux": {"gpu=yes", "os=linux"}} {
		if got, err := ParseWorker(wanted); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q %v", wanted, got, err)
		}
	}
	for _, wanted := range []string{"", "a b", "gpu=yes,", "=x", "-a", "any,\n"} {
		if got, err := ParseWorker(wanted); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%q: %q %v", wanted, got, err)
		}
	}
}
