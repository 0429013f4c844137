package vscode

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// gate is the variable that turns these tests on. The first set-up takes
// minutes and each start over a minute.
const gate = "COPILOT_BRIDGE_TEST_VSCODE"

// patience is long because test machines are busy.
const patience = 2 * time.Minute

// atEnd runs after all tests, in reverse order.
var atEnd []func() error

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	code := m.Run()
	for i := len(atEnd) - 1; i >= 0; i-- {
		if err := atEnd[i](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func requireGate(t *testing.T) {
	t.Helper()
	if os.Getenv(gate) == "" {
		t.Skip("needs a real VS Code, which takes minutes to install: run `make test-vscode`")
	}
}

// waitUntil polls until done returns true, or fails the test with the last
// state.
func waitUntil(t *testing.T, what string, within time.Duration, done func() (said string, ok bool)) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(within); ; <-tick.C {
		said, ok := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v; it is %s", what, within, said)
		}
		if err := t.Context().Err(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
