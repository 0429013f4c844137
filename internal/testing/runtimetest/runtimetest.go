// Package runtimetest gives tests the real Copilot runtime and CLI. It is for
// tests alone.
//
// They are installed once into the user's cache directory, outside any
// repository, and shared by all test packages and runs.
package runtimetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// Path returns the path of the pinned native runtime, installing it if need
// be, and fails the test if that cannot be done. It may be called from
// several test processes at once.
func Path(tb testing.TB) string {
	tb.Helper()
	path, err := Install(tb.Context())
	return ready(tb, path, err)
}

// Install is Path for a TestMain, which has no test yet.
func Install(ctx context.Context) (string, error) {
	return install(ctx, "runtime-"+copilotruntime.RuntimeVersion, copilotruntime.Install)
}

// CLIPath is Path for the pinned CLI.
func CLIPath(tb testing.TB) string {
	tb.Helper()
	path, err := install(tb.Context(), "cli-"+copilotruntime.CLIVersion, copilotruntime.InstallCLI)
	return ready(tb, path, err)
}

func ready(tb testing.TB, path string, err error) string {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%v\n%s", err, bridge.AsError(err).Remedy)
	}
	return path
}

type installFunc func(context.Context, copilotruntime.Options, copilotruntime.Progress) (copilotruntime.Runtime, error)

func install(ctx context.Context, folder string, install installFunc) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	home := filepath.Join(cache, "copilot-bridge-test", folder)
	rt, err := install(ctx, copilotruntime.Options{Home: home}, nil)
	if err != nil {
		return "", fmt.Errorf("install %s into %s: %w", folder, home, err)
	}
	return rt.Path, nil
}
