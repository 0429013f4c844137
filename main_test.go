package copilotbridge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// TestMain gives the examples a home of their own and the pinned runtime, so
// that they neither read the user's settings nor install anything.
func TestMain(m *testing.M) { os.Exit(isolated(m)) }

func isolated(m *testing.M) (code int) {
	path, err := runtimetest.Install(context.Background())
	if err == nil {
		err = os.Setenv("COPILOT_CLI_PATH", path)
	}
	home, failed := os.MkdirTemp("", "copilotbridge-test-")
	err = errors.Join(err, failed, os.Setenv("HOME", home), os.Setenv("COPILOT_BRIDGE_HOME", home))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(home); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if code = m.Run(); code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
