// Package openclaw tests the built binary with the real OpenClaw (gateway,
// agent and command line) and the real Copilot runtime. The models are
// demo models. Run it with `make test-openclaw`.
package openclaw

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// binary is the program under test. TestMain sets it if the tests run.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Getenv("COPILOT_BRIDGE_TEST_OPENCLAW") == "" {
		return m.Run() // all tests are skipped, so nothing to build
	}
	dir, err := os.MkdirTemp("", "copilot-bridge-openclaw-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover directory is harmless
	binary = filepath.Join(dir, "copilot-bridge")
	build := exec.Command("go", "build", "-o", binary, "../../cmd/copilot-bridge")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the program:", err)
		return 1
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
