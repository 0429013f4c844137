//go:build unix

package attempts

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// below returns a test for cases about repositories below the workspace, which
// its worktrees do not contain.
func (y *testEnv) below(t *testing.T) func(guardtest.Case) bool {
	t.Helper()
	var repositories []string
	for _, depth := range []string{"*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(y.Workspace, depth, ".git"))
		if err != nil {
			t.Fatal(err)
		}
		repositories = append(repositories, found...)
	}
	return func(c guardtest.Case) bool {
		return slices.ContainsFunc(repositories, func(dir string) bool { return strings.Contains(fmt.Sprint(c.Args), filepath.Base(filepath.Dir(dir))) })
	}
}

// orchestrated is `copilot-bridge orchestrate` with a plan of one task. The
// task works in its own worktree; its changes are merged into the workspace.
func orchestrated(t *testing.T, y *testEnv, env []string) caller {
	t.Helper()
	return &session{y: y, elsewhere: true, say: func(t *testing.T, prompt string) {
		t.Helper()
		plan, err := json.Marshal(orchestrate.Single(prompt))
		if err != nil {
			t.Fatal(err)
		}
		cmd := y.program(env, "orchestrate", "--json", "--plan", "-")
		cmd.Stdin, cmd.Stdout = strings.NewReader(string(plan)), y.output
		if code := runToEnd(t, y, cmd); code != 0 {
			t.Errorf("orchestrate ended with %d\n%s", code, y.output)
		}
	}}
}
