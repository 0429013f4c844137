//go:build unix

package sdk_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// The test binary is also the supervisor of the runtimes that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if os.Getenv("SDK_TEST_MCP") != "" {
		os.Exit(mcpMain(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

// model starts a demo model for one test.
func model(t testing.TB) *demomodel.Server {
	t.Helper()
	m := demomodel.New()
	if err := m.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("closing the model: %v", err)
		}
	})
	return m
}

func options(t testing.TB, m *demomodel.Server) sdk.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return sdk.Options{
		Runtime: runtimetest.Path(t), Home: t.TempDir(), Records: t.TempDir(), Self: self,
		Provider: &bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}, Model: m.Model(),
		Env: os.Environ(), Version: "test",
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, agenttest.Harness{
		New:        func(t *testing.T) engine.Agent { return sdk.New(options(t, model(t))) },
		CreateTool: "create",
	})
}

// The contract holds with GitHub's models, too.
func TestContractOnGitHub(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, agenttest.Harness{
		New: func(t *testing.T) engine.Agent {
			github := githubtest.Start(t)
			o := options(t, github.Model)
			o.Provider, o.Model, o.Token, o.Env = nil, "gpt-5", github.Token(), append(o.Env, github.Env()...)
			return sdk.New(o)
		},
		CreateTool: "create",
	})
}
