//go:build unix

package attempts

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/guardtest"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// below finds the cases that are about repositories below the workspace, which
// its worktrees do not hold.
func (y *yard) below(t *testing.T) func(guardtest.Case) bool {
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

// orchestrated is `copilot-bridge orchestrate` with a plan of one task, which
// works in a worktree of its own. What it did is delivered into the workspace.
func orchestrated(t *testing.T, y *yard, env []string) caller {
	t.Helper()
	return &session{y: y, elsewhere: true, say: func(t *testing.T, prompt string) {
		t.Helper()
		plan, err := json.Marshal(orchestrate.Single(prompt))
		if err != nil {
			t.Fatal(err)
		}
		cmd := y.program(env, "orchestrate", "--json", "--plan", "-")
		cmd.Stdin, cmd.Stdout = strings.NewReader(string(plan)), y.said
		if code := finish(t, y, cmd); code != 0 {
			t.Errorf("orchestrate ended with %d\n%s", code, y.said)
		}
	}}
}
