// Package runtimetest gives tests the real Copilot runtime and CLI. It is for
// tests alone.
//
// They are installed once into the user's cache directory, outside any
// repository, and shared by all test packages and runs.
package runtimetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// Path returns the path of the pinned native runtime, installing it if need
// be, and fails the test if that cannot be done. It may be called from
// several test processes at once.
func Path(tb testing.TB) string {
	tb.Helper()
	return ready(tb, "runtime-"+copilotruntime.RuntimeVersion, copilotruntime.Install)
}

// CLIPath is Path for the pinned CLI.
func CLIPath(tb testing.TB) string {
	tb.Helper()
	return ready(tb, "cli-"+copilotruntime.CLIVersion, copilotruntime.InstallCLI)
}

type installFunc func(context.Context, copilotruntime.Options, copilotruntime.Progress) (copilotruntime.Runtime, error)

func ready(tb testing.TB, folder string, install installFunc) string {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatalf("find the cache directory: %v", err)
	}
	home := filepath.Join(cache, "copilot-bridge-test", folder)
	rt, err := install(tb.Context(), copilotruntime.Options{Home: home}, nil)
	if err != nil {
		tb.Fatalf("install %s into %s: %v\n%s", folder, home, err, bridge.AsError(err).Remedy)
	}
	return rt.Path
}
