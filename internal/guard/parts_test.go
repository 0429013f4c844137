//go:build unix

package guard_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// privateKey writes a private key into two places of the workspace and returns its lines.
func (y *yard) privateKey(t *testing.T, name string) []string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	for _, to := range []string{name, filepath.Join("src", name)} {
		if err := os.WriteFile(filepath.Join(y.ws, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestPartsOfAPrivateKey reads a key from its second line on, one line of it,
// and a value that stands below its name, by the real runtime's own tools.
func TestPartsOfAPrivateKey(t *testing.T) {
	y := newYard(t)
	lines := y.privateKey(t, "server.key")
	const below = "Xk29vLq7Zr4TbN8w"
	if err := os.WriteFile(filepath.Join(y.ws, "deploy.yaml"), []byte("env:\n  - name: DB_PASSWORD\n    value: "+below+"\n  - name: MODE\n    value: fast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := engine.New(engine.Options{Agent: y.agent}).Open(t.Context(), engine.Request{Spec: y.spec})
	if err != nil {
		t.Fatal(err)
	}
	shell := func(command string) map[string]any { return map[string]any{"command": command, "description": "x"} }
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"view", map[string]any{"path": y.ws + "/server.key", "view_range": []any{2, 6}}},
		{"view", map[string]any{"path": y.ws + "/server.key", "view_range": []any{5, 5}}},
		{"view", map[string]any{"path": y.ws + "/deploy.yaml", "view_range": []any{3, 3}}},
		{"bash", shell("tail -n +2 server.key")},
		{"bash", shell("head -n 10 server.key | tail -n 6")},
		{"bash", shell("cat -n server.key | head -n 9 | tail -n 3")},
		{"bash", shell("head -n 4 server.key | tail -n 1")},
		{"bash", shell("cat server.key | tail -n 3")},
		{"bash", shell("tail -n 3 deploy.yaml | head -n 1")},
		{"grep", map[string]any{"pattern": regexp.QuoteMeta(lines[4][:20]), "path": y.ws + "/src", "output_mode": "content", "-n": true}},
		{"grep", map[string]any{"pattern": regexp.QuoteMeta(lines[4][:20]), "path": y.ws + "/server.key", "output_mode": "content", "-C": 2}},
	} {
		t.Run(fmt.Sprint(c.tool, c.args), func(t *testing.T) {
			ended := y.call(t, s, c.tool, c.args)
			if !ended.OK || !strings.Contains(ended.Result, "[REDACTED]") {
				t.Errorf("%+v", ended)
			}
			for _, secret := range append(lines[1:len(lines)-2], below) {
				if strings.Contains(ended.Result, secret) {
					t.Errorf("%q is in %q", secret, ended.Result)
				}
				y.unseen(t, secret)
			}
		})
	}
}
