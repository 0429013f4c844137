// Package clients runs real client libraries and programs (the SDKs of OpenAI,
// Anthropic and Vercel, Codex, Claude Code) against the built binary with the
// real Copilot runtime. The model is the demo model. The tests check the
// results that these clients return.
package clients

import (
	"os"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// binary is the program under test; TestMain sets it.
var binary string

func TestMain(m *testing.M) { os.Exit(programtest.NoLeaks(programtest.Run(m, &binary))) }
