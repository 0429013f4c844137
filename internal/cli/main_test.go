package cli

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// TestMain is also the supervisor of what tests start: without that, the
// tests themselves would run in its place.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if os.Getenv("COPILOT_BRIDGE_TEST_MAIN") != "" { // the program, for scripts that call it
		os.Exit(Main(System()))
	}
	goleak.VerifyTestMain(m)
}

type buffer = programtest.Output

// world is an Env with a separate home, and its captured output.
type world struct {
	Env
	out, err *buffer
	home     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{out: &buffer{}, err: &buffer{}, home: t.TempDir()}
	w.Env = Env{Stdin: strings.NewReader(""), Stdout: w.out, Stderr: w.err, Dir: t.TempDir(), HomeDir: w.home,
		Executable: os.Args[0], Environ: []string{"PATH=" + os.Getenv("PATH")}}
	return w
}

// run calls the program and returns its exit code.
func (w *world) run(args ...string) int {
	w.Args = append([]string{"copilot-bridge"}, args...)
	return Main(w.Env)
}

// terminals makes the named streams terminals of 60 columns.
func (w *world) terminals(streams ...any) {
	w.IsTerminal = func(s any) bool {
		for _, t := range streams {
			if s == t {
				return true
			}
		}
		return false
	}
	w.Width = func(any) int { return 60 }
}
