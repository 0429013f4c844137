package patch

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary runs itself again as a child that is killed; this variable
// tells the child on which workspace to work.
const childDir = "PATCH_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := applyForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
