package load

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// What a run does at LOAD_SCALE=1.
const (
	streams           = 200  // clients at a time in TestManyStreams
	streamRequests    = 6000 // requests in it, times the scale: 200 clients with one each 10 s, for 5 minutes
	firstRequests     = 12   // before that, one at a time
	isolationRequests = 5000 // requests in TestIsolation, times the scale
	isolationCallers  = 48   // at a time
	hangUps           = 5    // tries for each way to hang up; the median counts

	// Times the scale, these end the requests on machines that are too slow for
	// all of them; a tenth is done in any case. With the race detector they are
	// a quarter of that.
	streamBudget    = 60 * time.Second
	isolationBudget = 60 * time.Second
)

// The bars.
const (
	abortWithin    = 200 * time.Millisecond // from a hang-up to the end of the model's request
	memoryGrowth   = 1.20                   // after the load, against before
	shutdownWithin = 5 * time.Second        // from SIGTERM to the exit
	// patience is long because machines that run tests are busy.
	patience = 3 * time.Minute
)

// binary is the program under test and scale multiplies the counts; TestMain
// sets them.
var (
	binary string
	scale  = 1
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if s := os.Getenv("LOAD_SCALE"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "LOAD_SCALE is %q: it must be a whole number from 1\n", s)
			return 2
		}
		scale = n
	}
	dir, err := os.MkdirTemp("", "copilot-bridge-load-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing of it matters any more
	binary = filepath.Join(dir, "copilot-bridge")
	args := []string{"build", "-o", binary}
	if raced {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "../../cmd/copilot-bridge")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the program:", err)
		return 1
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
