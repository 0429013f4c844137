package registration

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

func TestHandOn(t *testing.T) {
	home, here, workspace := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(here, ".env"), []byte("COPILOT_BRIDGE_REASONING_EFFORT=low\nOPENCLAW_GATEWAY_TOKEN=key-of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=" + home, "PATH=/bin", "COPILOT_BRIDGE_HOME=bridge", "COPILOT_GITHUB_TOKEN=ghp_secret", "COPILOT_BRIDGE_MODEL=m", "COPILOT_BRIDGE_PORT=1",
		"COPILOT_BRIDGE_TOKEN=not-for-children", "OPENCLAW_PROFILE=work", "HTTPS_PROXY=http://me:pass@proxy:1", "NO_PROXY=localhost", "GH_TOKEN=gh-secret", "UNRELATED=1"}
	cfg, err := config.Load(config.Options{Environ: environ, Dir: here, HomeDir: home,
		Trusted: func(string, string, []byte) (bool, error) { return true, nil }})
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]string{"COPILOT_BRIDGE_HOME": filepath.Join(here, "bridge"), "COPILOT_BRIDGE_MODEL": "m", "OPENCLAW_PROFILE": "work", "NO_PROXY": "localhost", "COPILOT_BRIDGE_REASONING_EFFORT": "low"}
	secret := map[string]string{"COPILOT_GITHUB_TOKEN": "ghp_secret", "OPENCLAW_GATEWAY_TOKEN": "key-of-the-file", "HTTPS_PROXY": "http://me:pass@proxy:1", "GH_TOKEN": "gh-secret"}

	h := HandOn(cfg, environ, here, workspace, SecretsOmitted)
	if !maps.Equal(h.Env, plain) || h.Secrets || !slices.Equal(h.LeftOut, slices.Sorted(maps.Keys(secret))) {
		t.Errorf("omitted: %+v", h)
	}
	h = HandOn(cfg, environ, here, workspace, SecretsReferenced)
	for name := range secret {
		if h.Env[name] != "${"+name+"}" {
			t.Errorf("%s: %q", name, h.Env[name])
		}
	}
	if h.Secrets || len(h.LeftOut) > 0 {
		t.Errorf("referenced: %+v", h)
	}
	h = HandOn(cfg, environ, here, workspace, SecretsCopied)
	for name, value := range secret {
		if h.Env[name] != value {
			t.Errorf("%s: %q", name, h.Env[name])
		}
	}
	if !h.Secrets || len(h.LeftOut) > 0 {
		t.Errorf("copied: %+v", h)
	}
	// A .env file is found where the bridge is started.
	h = HandOn(cfg, environ, here, here, SecretsOmitted)
	if h.Env["COPILOT_BRIDGE_REASONING_EFFORT"] != "" || slices.Contains(h.LeftOut, "OPENCLAW_GATEWAY_TOKEN") {
		t.Errorf("at home: %+v", h)
	}
}
