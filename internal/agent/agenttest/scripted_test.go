package agenttest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScriptedContract(t *testing.T) {
	agenttest.Run(t, agenttest.Harness{
		New:        func(*testing.T) engine.Agent { return agenttest.NewScripted() },
		CreateTool: "create",
	})
}
