// Package programtest builds the program under test and keeps what programs
// write. It is for tests alone.
package programtest

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"
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
	build := exec.Command("go", append(append([]string{"build", "-o", *binary}, flags...), "github.com/copilot-bridge/copilot-bridge/cmd/copilot-bridge")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the program:", err)
		return 1
	}
	return m.Run()
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
