package capabilities

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// serverVerb starts this binary as the tool server of a probe.
const serverVerb = "probe-server"

// The test binary is also the supervisor of the runtimes that it starts, and
// the tool server that they start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == serverVerb {
		if err := serveMCP(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
