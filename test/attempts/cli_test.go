//go:build unix

package attempts

import (
	"testing"
)

// cli is `copilot-bridge run`: one process per turn, without a terminal.
func cli(t *testing.T, y *testEnv, env []string) caller {
	t.Helper()
	return &session{y: y, say: func(t *testing.T, prompt string) {
		t.Helper()
		cmd := y.program(env, "run", "--json", prompt)
		cmd.Stdout = y.output
		runToEnd(t, y, cmd)
	}}
}
