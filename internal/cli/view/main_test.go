package view

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a bytes.Buffer that may be used concurrently.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// testConsole is a console of 60 columns on out and err, which may be one.
func testConsole(out, err io.Writer, outTTY, errTTY bool) *Console {
	return &Console{Out: out, Err: err, OutTTY: outTTY, ErrTTY: errTTY, Width: func() int { return 60 }}
}
