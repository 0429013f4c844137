// Command generate writes the inventory of package capabilities: what the
// pinned runtime's schemas and the Go SDK declare, and where the bridge uses
// it. It needs a Go toolchain, since it reads the SDK's and the bridge's code
// by their types. It is run by `go generate`, and by a test that holds its
// output to what is committed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

func main() {
	out := flag.String("out", "inventory.json", "the file to write")
	runtime := flag.String("runtime", "", "the runtime's npm package directory; the pinned one is installed if it is empty")
	flag.Parse()
	if err := run(context.Background(), *out, *runtime); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, runtime string) error {
	if runtime == "" {
		var err error
		if runtime, err = pinnedPackage(ctx); err != nil {
			return err
		}
	}
	b, err := inventory(ctx, runtime)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(out); err == nil && bytes.Equal(old, b) {
		return nil // so that make sees nothing new
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(out, b, 0o644)
}

// pinnedPackage is the package directory of the pinned runtime, where the
// tests keep it too.
func pinnedPackage(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	home := filepath.Join(cache, "copilot-bridge-test", "runtime-"+copilotruntime.RuntimeVersion)
	rt, err := copilotruntime.Install(ctx, copilotruntime.Options{Home: home}, nil)
	if err != nil {
		return "", err
	}
	return capabilities.PackageOf(rt.Path)
}

func inventory(ctx context.Context, runtime string) ([]byte, error) {
	surface, err := capabilities.ReadSurface(runtime)
	if err != nil {
		return nil, err
	}
	code, err := load(ctx)
	if err != nil {
		return nil, err
	}
	sdk, err := code.describe()
	if err != nil {
		return nil, err
	}
	return capabilities.Encode(&capabilities.Inventory{Runtime: *surface, SDK: *sdk})
}
