// Package e2e runs the built binary as its users do: in separate processes,
// with the real Copilot runtime and the demo model. The scripts in
// testdata contain the commands and the expected results.
package e2e

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// binary is the program under test; TestMain sets it.
var binary string

func TestMain(m *testing.M) { os.Exit(programtest.Run(m, &binary)) }

func TestScripts(t *testing.T) { runScripts(t, "testdata/scripts", platformCommands()) }

type scriptCommand = func(ts *testscript.TestScript, neg bool, args []string)

// runScripts runs the scripts of a directory. Each script has its own home and
// a workspace, which is its working directory. All tests share one runtime.
func runScripts(t *testing.T, dir string, more map[string]scriptCommand) {
	t.Helper()
	copilot, cli := runtimetest.Path(t), runtimetest.CLIPath(t)
	model := provider(t)
	commands := map[string]scriptCommand{"exits": exits, "jsonlines": jsonLines, "newest": newest, "tamper": tamper, "expand": expand}
	for name, c := range more {
		commands[name] = c
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, Cmds: commands, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			home, workspace := filepath.Join(env.WorkDir, "home"), filepath.Join(env.WorkDir, "w")
			port, err := freePort()
			if err != nil {
				return err
			}
			for _, d := range []string{home, workspace} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					return err
				}
			}
			env.Cd = workspace
			env.Vars = append(env.Vars, "HOME="+home, "USERPROFILE="+home, "COPILOT_BRIDGE_HOME="+filepath.Join(home, "bridge"),
				"COPILOT_CLI_PATH="+copilot, "CLI="+cli, "PATH="+filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"),
				"MODEL_URL="+model.URL(), "MODEL_KEY="+model.Key(), "MODEL_NAME="+model.Model(), "FREE_PORT="+port)
			env.Vars = append(env.Vars, npmVariables(t)...)
			return nil
		},
	})
}

// freePort returns a port on which nobody listens.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// provider is an OpenAI-compatible server that is independent of the bridge.
func provider(t *testing.T) *demomodel.Server {
	t.Helper()
	return programtest.Model(t)
}

// npmVariables make npm work with a script's home as with the tester's own.
func npmVariables(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, kv := range os.Environ() {
		name := strings.ToLower(strings.SplitN(kv, "=", 2)[0])
		if strings.HasPrefix(name, "npm_config_") || strings.HasSuffix(name, "_proxy") || slices.Contains([]string{"node_extra_ca_certs", "ssl_cert_file"}, name) {
			out = append(out, kv)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return append(out, "npm_config_userconfig="+filepath.Join(home, ".npmrc"), "npm_config_cache="+filepath.Join(home, ".npm"))
}
