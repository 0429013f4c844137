package agenttest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScriptedContract(t *testing.T) {
	agenttest.Run(t, agenttest.Harness{
		New:        func(*testing.T) engine.Agent { return agenttest.NewScripted() },
		CreateTool: "create",
	})
}
