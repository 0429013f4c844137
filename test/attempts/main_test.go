//go:build unix

package attempts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// binary is the program under test; TestMain sets it.
var binary string

// patience is long because test machines are busy.
const patience = 3 * time.Minute

// slots limits how many doors are tested at once.
var slots = make(chan struct{}, 2)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == relayVerb {
		os.Exit(relayMain(os.Args[2]))
	}
	if len(os.Args) == 2 && os.Args[1] == agentVerb {
		os.Exit(agentMain())
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "copilot-bridge-attempts-")
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
	return m.Run()
}
