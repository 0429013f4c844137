//go:build unix

package attempts

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// abp is `copilot-bridge abp`: each turn is one process with one work order.
// The order sets no policy, so the user's policy applies.
func abp(t *testing.T, y *testEnv, env []string) caller {
	t.Helper()
	return &session{y: y, say: func(t *testing.T, prompt string) {
		t.Helper()
		order(t, y, env, map[string]any{"id": "11111111-2222-4333-8444-555555555555", "task": prompt, "lane": "workspace_first",
			"workspace": map[string]any{"root": y.Workspace, "mode": "pass_through"}})
	}}
}

func order(t *testing.T, y *testEnv, env []string, work map[string]any) {
	t.Helper()
	line, err := json.Marshal(map[string]any{"t": "run", "id": "r-1", "work_order": work})
	if err != nil {
		t.Fatal(err)
	}
	cmd := y.program(env, "abp")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(append(line, '\n')), &out
	runToEnd(t, y, cmd)
	_, _ = y.output.Write(out.Bytes()) // never fails
	if !strings.Contains(out.String(), `{"t":"final"`) && !strings.Contains(out.String(), `{"t":"fatal"`) {
		t.Errorf("abp: the output has neither a receipt nor a refusal:\n%.2000s", out.String())
	}
}
