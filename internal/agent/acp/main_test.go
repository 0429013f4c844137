//go:build unix

package acp_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// The test binary is also the supervisor of what it starts, and an ACP agent
// that does what Copilot does not, and an MCP server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if role := os.Getenv("ACP_TEST_AGENT"); role != "" {
		os.Exit(agentMain(role))
	}
	if secret := os.Getenv("ACP_TEST_MCP"); secret != "" {
		os.Exit(toolServerMain(secret))
	}
	goleak.VerifyTestMain(m)
}

// model starts a demo model for one test.
func model(t testing.TB) *demomodel.Server {
	t.Helper()
	return programtest.Model(t)
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// copilot are the options for the real CLI on a scripted model.
func copilot(t testing.TB, m *demomodel.Server) acp.Options {
	t.Helper()
	return acp.Options{
		Program: runtimetest.CLIPath(t), Args: []string{"--acp", "--stdio"}, Copilot: true, Home: t.TempDir(), Records: t.TempDir(), Self: self(t),
		Provider: &bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}, Model: m.Model(), Env: os.Environ(), Version: "test",
		TerminalEnv: []string{"PATH=" + os.Getenv("PATH")},
	}
}

// overTCP has the same program listen at a free port.
func overTCP(t testing.TB, o acp.Options) acp.Options {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		t.Fatal(err)
	}
	o.Args = []string{"--acp", "--port", port}
	return o
}

// lacks is what ACP has no means for, with Copilot at the other end.
var lacks = map[agenttest.Ability]string{
	agenttest.Chats:       "an agent cannot be kept from using its own tools",
	agenttest.ClientTools: "tools of the caller are not part of the protocol",
	agenttest.Deletes:     "Copilot has no session/delete",
	agenttest.HidesResult: "the agent gives results to the model before anybody else sees them",
}

func TestContract(t *testing.T) {
	t.Parallel()
	for name, tcp := range map[string]bool{"stdio": false, "tcp": true} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, agenttest.Harness{CreateTool: "create", Lacks: lacks, New: func(t *testing.T) engine.Agent {
				o := copilot(t, model(t))
				if tcp {
					o = overTCP(t, o)
				}
				return acp.New(o)
			}})
		})
	}
	agenttest.Documented(t, filepath.Join("..", "..", "..", "docs", "guides", "agents.md"), "ACP", lacks)
}
