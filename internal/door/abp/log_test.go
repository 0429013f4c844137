package abp_test

import (
	"log/slog"
	"testing"
)

// testLogger shows warnings with the test that they belong to.
func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func mcpMain(any, any) int { return 0 }
