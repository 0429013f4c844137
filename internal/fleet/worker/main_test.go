package worker

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// The test binary is also the supervisor of what it starts, and the worker that
// the kill test kills.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if dir := os.Getenv(victimDir); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
