package gateway

import (
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// verify checks a signature as the gateway does.
func verify(t *testing.T, p connectParams, token string) {
	t.Helper()
	d := p.Device
	if d == nil {
		t.Error("no device")
		return
	}
	key, err := base64.RawURLEncoding.DecodeString(d.PublicKey)
	signature, err2 := base64.RawURLEncoding.DecodeString(d.Signature)
	text := strings.Join([]string{"v3", d.ID, "gateway-client", "backend", "operator", "operator.read", "1737264000000", token, "n-1", runtime.GOOS, ""}, "|")
	if err != nil || err2 != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, []byte(text), signature) || d.SignedAt != 1737264000000 || d.Nonce != "n-1" {
		t.Errorf("the signature is not good: %+v, %v, %v", d, err, err2)
	}
}

func TestIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device.json")
	id, err := LoadIdentity(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var seen [4]connectParams
	var all sync.WaitGroup
	all.Add(len(seen))
	note := func(i int, p *peer) { seen[i] = p.got; all.Done() }
	b := newBroken(t,
		func(p *peer) { p.admitWith(`,"deviceToken":"given"`, "30000"); note(0, p); p.answer() },
		func(p *peer) { // what is shared has changed
			p.refuse(`{"code":"INVALID_REQUEST","message":"m","details":{"code":"AUTH_TOKEN_MISMATCH","canRetryWithDeviceToken":true}}`)
			note(1, p)
		},
		func(p *peer) { p.admit(); note(2, p); p.answer() },
		func(p *peer) { p.admit(); note(3, p); p.answer() })
	o := quick(b.url())
	o.Identity = id
	c := New(o)
	eventually(t, c, "x")
	c.Close()
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again, err := LoadIdentity(t.Context(), path)
	if err != nil || again.ID() != id.ID() || again.token(b.url()) != "given" || again.token("ws://elsewhere") != "" {
		t.Fatalf("%v, %v", again, err)
	}
	o.Identity = again
	c = New(o)
	eventually(t, c, "x")
	c.Close()
	o.Token = ""
	c = New(o)
	eventually(t, c, "x")
	c.Close()
	all.Wait()
	if *seen[0].Auth != (auth{Token: "right"}) || *seen[1].Auth != (auth{Token: "right"}) ||
		*seen[2].Auth != (auth{Token: "right", DeviceToken: "given"}) || *seen[3].Auth != (auth{Token: "given"}) {
		t.Fatalf("%+v", seen)
	}
	for i, token := range []string{"right", "right", "right", "given"} {
		verify(t, seen[i], token)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadIdentity(t.Context(), path); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("%v", err)
	}
}
