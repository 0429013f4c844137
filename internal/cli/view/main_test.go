package view

import (
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type buffer = programtest.Output

// testConsole is a console of 60 columns on out and err, which may be one.
func testConsole(out, err io.Writer, outTTY, errTTY bool) *Console {
	return &Console{Out: out, Err: err, OutTTY: outTTY, ErrTTY: errTTY, Width: func() int { return 60 }}
}
