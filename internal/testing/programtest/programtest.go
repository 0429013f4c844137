// Package programtest builds the program under test, gives it a model, keeps what
// programs write and finds those that are left. It is for tests alone.
package programtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// Output is a buffer that can be read while it is written.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Run is for a TestMain: it builds the program, with these flags of go build, runs
// the tests and returns their exit code. The program's path is in binary.
func Run(m *testing.M, binary *string, flags ...string) int {
	dir, err := os.MkdirTemp("", "copilot-bridge-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover directory is harmless
	*binary = filepath.Join(dir, "copilot-bridge")
	if runtime.GOOS == "windows" {
		*binary += ".exe"
	}
	build := exec.CommandContext(context.Background(), "go", append(append([]string{"build", "-o", *binary}, flags...), "github.com/copilot-bridge/copilot-bridge/cmd/copilot-bridge")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the program:", err)
		return 1
	}
	return m.Run()
}

// Model starts a demo model for one test.
func Model(tb testing.TB, options ...demomodel.Option) *demomodel.Server {
	tb.Helper()
	m := demomodel.New(options...)
	if err := m.Start(context.Background()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Errorf("closing the model: %v", err)
		}
	})
	return m
}

// NoLeaks turns the exit code of tests that passed into a failure if goroutines
// are left.
func NoLeaks(code int) int {
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
