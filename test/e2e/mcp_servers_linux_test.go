package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// The MCP servers of the user's configuration reach the agent sessions of every
// door and transport, and their tools the guard. Servers that do not start are
// one line each and stop nothing. A work order gets only what it names.
func TestUsersMCPServers(t *testing.T) {
	const offered, denied = 1, 2
	doors := map[string]struct {
		through func(t *testing.T, h *hostileWorkspace) (out string)
		acp     bool // Copilot's CLI does not tell of servers that start and end
		not     int
	}{
		"run":            {through: func(t *testing.T, h *hostileWorkspace) string { return h.run(t, "", "run", h.prompt) }},
		"run, over ACP":  {through: func(t *testing.T, h *hostileWorkspace) string { return h.run(t, "", "run", h.prompt) }, acp: true},
		"run, unallowed": {through: func(t *testing.T, h *hostileWorkspace) string { return h.unallowed(t) }, not: denied},
		"serve":          {through: func(t *testing.T, h *hostileWorkspace) string { h.serve(t); return "" }, not: denied}, // it is read-only
		"acp":            {through: func(t *testing.T, h *hostileWorkspace) string { h.acp(t); return "" }},
		"mcp": {through: func(t *testing.T, h *hostileWorkspace) string {
			mcpCall(t, h.connect(t, nil, "copilot"), "copilot_code_task", map[string]any{"prompt": h.prompt}, nil)
			return ""
		}},
		"abp": {through: func(t *testing.T, h *hostileWorkspace) string { h.abp(t, nil); return "" }, not: offered},
	}
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newMCPBench(t, map[string]string{"~/notes/MEMORY.md": "# Deploy\n\nStaging lives on otter.example.\n",
				"~/.copilot-bridge/policy.yaml": "tools: {allow: [memo/openclaw_memory_search, openclaw_memory_search]} # the second: inside the server\n"})
			h := &hostileWorkspace{mcpBench: b, prompt: tool("memo-openclaw_memory_search", map[string]string{"query": "staging"}) + "\nrehearsal: next\nrehearsal: text ALL-DONE"}
			h.env = append(h.env, "NOTES="+filepath.Join(b.home, "notes"))
			if door.acp {
				h.env = append(h.env, "COPILOT_CLI_PATH="+runtimetest.CLIPath(t), "ABP_COPILOT_TRANSPORT=acp")
			}
			for _, add := range [][]string{{"memo", "-e", "OPENCLAW_WORKSPACE_DIR=${NOTES}", "--", binary, "mcp", "openclaw"}, {"ends", "--", "false"},
				{"gone", "--", "no-such-program"}, {"far", "http://127.0.0.1:1/mcp"}, {"unset", "-e", "NOBODY_SETS_THIS", "--", "cat"}} {
				h.run(t, "", append([]string{"mcp", "add"}, add...)...)
			}
			out := door.through(t, h)
			there, told := false, false
			for _, q := range b.model.Requests() {
				there = there || slices.Contains(q.ToolNames(), "memo-openclaw_memory_search")
				told = told || bytes.Contains(q.Raw, []byte("otter.example"))
			}
			record, err := os.ReadFile(newestFile(t, filepath.Join(b.home, ".copilot-bridge", "audit", "*.jsonl")))
			verdict := map[int]string{0: "allow", denied: "deny", offered: ".*"}[door.not]
			recorded, failed := regexp.Match(`"pre_tool".*"tool":"memo-openclaw_memory_search".*"decision":"`+verdict+`"`, record)
			if err != nil || failed != nil || there != (door.not != offered) || told != (door.not == 0) || !recorded {
				t.Errorf("offered: %v, the model was told: %v, recorded: %v, %v %v\n%s\n%s", there, told, recorded, err, failed, out, record)
			}
			if out == "" {
				return
			}
			lines := []string{"the MCP server gone is left out: no-such-program was not found", "the MCP server unset is left out: NOBODY_SETS_THIS is not set"}
			if !door.acp {
				lines = append(lines, "the MCP server ends cannot be used: MCP server process exited", "the MCP server far cannot be used: failed to initialize")
			}
			for _, line := range lines {
				if strings.Count(out, line) != 1 {
					t.Errorf("%d times %q:\n%s", strings.Count(out, line), line, out)
				}
			}
		})
	}
}

// unallowed runs the prompt without a rule that allows the tool and with nobody
// to ask.
func (h *hostileWorkspace) unallowed(t *testing.T) string {
	t.Helper()
	if err := os.Remove(filepath.Join(h.home, ".copilot-bridge", "policy.yaml")); err != nil {
		t.Fatal(err)
	}
	out, err := h.runAnyway("", "run", h.prompt)
	if err == nil || !strings.Contains(out, `calling "memo-openclaw_memory_search" needs consent`) {
		t.Errorf("%v: %s", err, out)
	}
	return out
}

func newestFile(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, errors.Join(err, os.ErrNotExist))
	}
	return files[len(files)-1]
}
