// Package languagetest gives tests real language servers. It is for tests
// alone.
//
// They are installed once into the user's cache directory, outside any
// repository, keyed by their version, and shared by all test packages and
// runs. Package openclawtest installs OpenClaw in the same way, by Cached.
package languagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// GoplsVersion is the last one that builds with the Go of go.mod.
const GoplsVersion = "v0.23.0"

// The lock file names no addresses, because a machine may use a registry of
// their own. To change a version, edit package.json and run
// npm install --package-lock-only --omit-lockfile-registry-resolved.
var (
	//go:embed typescript/package.json
	manifest []byte
	//go:embed typescript/package-lock.json
	lock []byte
)

// Gopls returns the path of the pinned gopls, installing it if need be. It
// may be called from several test processes at once.
func Gopls(tb testing.TB) string {
	tb.Helper()
	name := "gopls"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	dir := Cached(tb, "gopls-"+GoplsVersion+"-"+runtime.Version(), func(ctx context.Context, dir string) error {
		cmd := exec.CommandContext(ctx, "go", "install", "golang.org/x/tools/gopls@"+GoplsVersion)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=")
		return Run(cmd)
	})
	return filepath.Join(dir, name)
}

// TypeScript returns the path of the pinned typescript-language-server, which
// has its TypeScript beside it, installing both if need be.
func TypeScript(tb testing.TB) string {
	tb.Helper()
	sum := sha256.Sum256(lock)
	dir := Cached(tb, "typescript-"+hex.EncodeToString(sum[:6]), func(ctx context.Context, dir string) error {
		for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				return err
			}
		}
		return InstallPackages(ctx, dir)
	})
	name := "typescript-language-server"
	if runtime.GOOS == "windows" {
		name += ".cmd"
	}
	return filepath.Join(dir, "node_modules", ".bin", name)
}

// InstallPackages installs the packages that package-lock.json in dir names.
func InstallPackages(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "npm", append([]string{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress",
		"--no-update-notifier", "--loglevel=error", "--prefer-offline", "--global=false", "--fetch-timeout=120000", "--fetch-retries=5"}, args...)...)
	cmd.Dir = dir
	return Run(cmd)
}

// Cached returns the cache folder of that name, filled by install if it is not
// there yet. A folder appears under its name only when it is complete. It may
// be called from several test processes at once.
func Cached(tb testing.TB, folder string, install func(ctx context.Context, dir string) error) string {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatalf("find the cache directory: %v", err)
	}
	base := filepath.Join(cache, "copilot-bridge-test")
	dir := filepath.Join(base, folder)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Minute)
	defer cancel()
	unlock, err := durable.Lock(ctx, dir+".lock")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := unlock(); err != nil {
			tb.Error(err)
		}
	}()
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	staging, err := os.MkdirTemp(base, folder+"-staging-")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(staging) }() // moved away if all went well
	tb.Logf("installing %s", folder)
	if err := install(ctx, staging); err != nil {
		tb.Fatalf("install %s: %v", folder, err)
	}
	if err := os.Rename(staging, dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Run runs a command. The error holds its output.
func Run(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, out.Bytes())
	}
	return nil
}
