//go:build unix

package probe_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities/probe"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

const serverVerb = "__probe_server"

// The test binary is also the supervisor of the runtimes that it starts, and
// the tool server that they start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == serverVerb {
		if err := probe.ServeMCP(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func options(t *testing.T) probe.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return probe.Options{Runtime: runtimetest.Path(t), Self: self, Server: []string{self, serverVerb}, Env: os.Environ()}
}
