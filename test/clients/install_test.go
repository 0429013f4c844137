package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// modules returns the node_modules directory for a folder's package-lock.json.
// The modules are installed once into the user's cache directory, keyed by the
// lock file, and shared by all runs.
//
// The lock files contain no registry addresses, so that any registry works. To
// change a version, edit package.json and run npm install --package-lock-only
// --omit-lockfile-registry-resolved.
func modules(t *testing.T, folder string) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("find the cache directory: %v", err)
	}
	base := filepath.Join(cache, "copilot-bridge-test")
	sum := sha256.Sum256(lock)
	dir := filepath.Join(base, "clients-"+folder+"-"+hex.EncodeToString(sum[:6]))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	unlock, err := durable.Lock(ctx, dir+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, "node_modules")
	}
	staging, err := os.MkdirTemp(base, filepath.Base(dir)+"-staging-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(staging) }() // already renamed on success
	manifest, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(staging, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress",
		"--no-update-notifier", "--loglevel=error", "--prefer-offline", "--global=false", "--no-bin-links",
		"--fetch-timeout=120000", "--fetch-retries=5") // by default npm waits five minutes for a stalled download, three times
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = staging, &out, &out, 5*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("npm ci for %s: %v\n%s", folder, err, out.Bytes())
	}
	if err := os.Rename(staging, dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "node_modules")
}
