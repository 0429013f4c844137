// Package openclaw tests the built binary with the real OpenClaw (gateway,
// agent and command line) and the real Copilot runtime. The models are
// demo models. Run it with `make test-openclaw`.
package openclaw

import (
	"os"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// binary is the program under test. TestMain sets it if the tests run.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Getenv("COPILOT_BRIDGE_TEST_OPENCLAW") == "" {
		return m.Run() // all tests are skipped, so nothing to build
	}
	return programtest.NoLeaks(programtest.Run(m, &binary))
}
