package load

import (
	"os"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// The sizes of a long run. By default the tests send a tenth of the requests.
const (
	streams           = 200  // concurrent clients in TestManyStreams
	streamRequests    = 6000 // in TestManyStreams: 200 clients with one request each 10 s, for 5 minutes
	firstRequests     = 12   // sent one at a time before that
	isolationRequests = 5000 // in TestIsolation
	isolationCallers  = 48   // concurrent callers in TestIsolation
	hangUps           = 5    // tries for each way to hang up; the median must be fast

	// On slow machines the tests stop sending after this time, a quarter of it
	// with the race detector, but they always send a tenth of the requests.
	streamBudget    = 60 * time.Second
	isolationBudget = 60 * time.Second
)

// The limits that the tests check.
const (
	abortWithin    = 200 * time.Millisecond // from a hang-up to the end of the model request
	memoryGrowth   = 1.20                   // memory after the load / before
	shutdownWithin = 5 * time.Second        // from SIGTERM to the exit
	// patience is long because test machines are busy.
	patience = 3 * time.Minute
)

// binary is the program under test; TestMain builds it.
var binary string

// long reports whether to send the whole load instead of a tenth.
func long() bool { return os.Getenv("COPILOT_BRIDGE_TEST_LONG") != "" }

// share is how many requests of a long run this run sends.
func share(requests int) int {
	if long() {
		return requests
	}
	return requests / 10
}

func TestMain(m *testing.M) {
	var flags []string
	if raced {
		flags = []string{"-race"}
	}
	os.Exit(programtest.NoLeaks(programtest.Run(m, &binary, flags...)))
}
