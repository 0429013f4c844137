package hub_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet/hub"
)

// victimDir is set for the process that the kill test kills: a hub with its files
// there.
const victimDir = "FLEET_TEST_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// victim runs a hub until its standard input ends, or it is killed.
func victim(dir string) error {
	ctx := context.Background()
	h, err := hub.Up(ctx, hub.Options{Dir: filepath.Join(dir, "hub"), CoordinatorDir: filepath.Join(dir, "coordinator"), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	fmt.Println(h.URLs()[0])
	_, _ = os.Stdin.Read(make([]byte, 1))
	return h.Close(ctx)
}
