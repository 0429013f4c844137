package live

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if home := os.Getenv("LIVE_TEST_HOME"); home != "" {
		os.Exit(stay(home))
	}
	goleak.VerifyTestMain(m)
}
