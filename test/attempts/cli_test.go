//go:build unix

package attempts

import (
	"testing"
)

// cli is `copilot-bridge run`, one process a turn, with nobody at a terminal.
func cli(t *testing.T, y *yard, env []string) caller {
	t.Helper()
	return &session{y: y, say: func(t *testing.T, prompt string) {
		t.Helper()
		cmd := y.program(env, "run", "--json", prompt)
		cmd.Stdout = y.said
		finish(t, y, cmd)
	}}
}
