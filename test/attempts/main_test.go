//go:build unix

package attempts

import (
	"os"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// binary is the program under test; TestMain sets it.
var binary string

// patience is long because test machines are busy.
const patience = 3 * time.Minute

// slots limits how many doors are tested at once.
var slots = make(chan struct{}, 2)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == relayVerb {
		os.Exit(relayMain(os.Args[2]))
	}
	if len(os.Args) == 2 && os.Args[1] == agentVerb {
		os.Exit(agentMain())
	}
	os.Exit(programtest.Run(m, &binary))
}
