package copilotruntime_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// childHome makes the test binary install into that home instead of testing,
// so that tests can have installs in processes of their own. Every step is a
// line on the child's standard output.
const childHome = "COPILOTRUNTIME_TEST_CHILD_HOME"

func TestMain(m *testing.M) {
	if home := os.Getenv(childHome); home != "" {
		os.Exit(installAsChild(home))
	}
	goleak.VerifyTestMain(m)
}

func installAsChild(home string) int {
	progress := func(s copilotruntime.Step) { fmt.Println(s.Text) }
	if _, err := copilotruntime.Install(context.Background(), copilotruntime.Options{Home: home}, progress); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
