package task

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// The test binary is also the supervisor that supervised commands run under.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if os.Getenv("TASK_TEST_BRIDGE") != "" {
		os.Exit(bridgeMain())
	}
	goleak.VerifyTestMain(m)
}
