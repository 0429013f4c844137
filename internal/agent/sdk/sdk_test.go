//go:build unix

package sdk_test

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
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
	return programtest.Model(t)
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

// githubModels are the stand-in's models by the endpoint that they answer at.
var githubModels = map[string]string{"gpt-5": githubtest.ChatPath, "gpt-5-codex": githubtest.ResponsesPath, "claude-sonnet-4.5": githubtest.MessagesPath}

// onGitHub are the options of an agent whose models are those of a stand-in.
func onGitHub(t testing.TB, github *githubtest.Server, model string) sdk.Options {
	t.Helper()
	o := options(t, github.Model)
	o.Provider, o.Model, o.Token, o.Env = nil, model, github.Token(), append(o.Env, github.Env()...)
	return o
}

// The contract holds with GitHub's models, too, at each kind of endpoint. The
// runtime gives Codex models another tool to write with, so gpt-5 answers there.
func TestContractOnGitHub(t *testing.T) {
	t.Parallel()
	for endpoint, model := range map[string]string{githubtest.ChatPath: "gpt-5", githubtest.ResponsesPath: "gpt-5", githubtest.MessagesPath: "claude-sonnet-4.5"} {
		t.Run(strings.ReplaceAll(endpoint[1:], "/", " "), func(t *testing.T) {
			t.Parallel()
			agenttest.Run(t, agenttest.Harness{
				New: func(t *testing.T) engine.Agent {
					github := githubtest.Start(t)
					m := githubtest.UsualModels()[0]
					m.ID, m.Endpoint = model, endpoint
					github.SetModels(m)
					return sdk.New(onGitHub(t, github, model))
				},
				CreateTool: "create",
			})
		})
	}
}
