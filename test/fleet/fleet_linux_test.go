package fleet

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// tasks is how many tasks the tests' plans have.
func tasks(t *testing.T) int {
	t.Helper()
	text := os.Getenv("COPILOT_BRIDGE_TEST_FLEET_TASKS")
	if text == "" {
		return 24
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("COPILOT_BRIDGE_TEST_FLEET_TASKS=%s", text)
	}
	return n
}

// newMachine gives a host the environment in which the program runs.
func newMachine(h *fleettest.Host) *fleettest.Host {
	h.Env = []string{"COPILOT_BRIDGE_HOME=" + filepath.Join(h.Home, "bridge"), "COPILOT_CLI_PATH=" + copilotRuntime, "COPILOT_BRIDGE_SANDBOX="}
	return h
}
