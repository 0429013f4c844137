package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// The programs under test, and the pinned runtime.
var binary, natsServer, copilotRuntime string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Getenv("COPILOT_BRIDGE_TEST_FLEET") != "1" {
		return m.Run() // all tests are skipped, so nothing to build
	}
	dir, err := fleettest.TempDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // the next run removes a leftover
	binary, natsServer = filepath.Join(dir, "copilot-bridge"), filepath.Join(dir, "nats-server")
	for path, pkg := range map[string]string{binary: "../../cmd/copilot-bridge", natsServer: "github.com/nats-io/nats-server/v2"} {
		build := exec.Command("go", "build", "-o", path, pkg)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building", pkg+":", err)
			return 1
		}
	}
	if copilotRuntime, err = runtimetest.Install(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// seedOf skips a test that was not asked for, and else returns the seed of its
// random choices.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	if os.Getenv("COPILOT_BRIDGE_TEST_FLEET") != "1" || os.Geteuid() != 0 {
		t.Skip("make test-fleet runs it, as root")
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SEED: %v", err)
		}
		seed = n
	}
	t.Logf("SEED=%d", seed)
	return seed
}

// eventually polls until there is no complaint.
func eventually(t *testing.T, within time.Duration, what string, complaint func() string) {
	t.Helper()
	for deadline := time.Now().Add(within); ; <-time.After(100 * time.Millisecond) {
		c := complaint()
		if c == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, after %s: %s", what, within, c)
		}
	}
}
