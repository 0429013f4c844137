//go:build unix

package bundle

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(childFile); file != "" {
		receiveUntilKilled(file)
	}
	goleak.VerifyTestMain(m)
}
