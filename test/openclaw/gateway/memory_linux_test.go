package gateway

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// command prepares a run of the program with the user's home.
func (h *fixture) command(token string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = h.user.Home
	cmd.Env = append(h.user.Environ(), "COPILOT_BRIDGE_HOME="+filepath.Join(h.user.Home, "bridge"), "OPENCLAW_PORT="+strconv.Itoa(h.gateway.Port), "OPENCLAW_GATEWAY_TOKEN="+token)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

type hits struct {
	Hits []struct {
		File, Heading, Snippet string
		Line                   int
	}
	Source string
}

type document struct {
	File, Content, Source string
}

// server starts `mcp openclaw`.
func (h *fixture) server(t *testing.T, token string) *mcp.ClientSession {
	t.Helper()
	var stderr programtest.Output
	cmd := h.command(token, "mcp", "openclaw")
	cmd.Stderr = &stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: 20 * time.Second}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	t.Cleanup(func() {
		_ = c.Close()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("the server ended with %v\n%s", cmd.ProcessState, stderr.String())
		}
	})
	return c
}

func call[T any](t *testing.T, c *mcp.ClientSession, tool string, args map[string]any) (out T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil || r.IsError {
		t.Fatalf("%s: %v: %+v", tool, err, r.Content)
	}
	return out
}

// searchOnceReady repeats a search until the gateway answers it. Its first
// search builds the index, which may take longer than the server waits before
// it falls back to the files.
func searchOnceReady(t *testing.T, c *mcp.ClientSession, query string) hits {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
		found := call[hits](t, c, "openclaw_memory_search", map[string]any{"query": query})
		if len(found.Hits) == 0 {
			t.Errorf("nothing is found about %q", query) // from the gateway or from the files
		}
		if found.Source == "gateway" || time.Now().After(deadline) {
			return found
		}
	}
}

// The gateway and the files return the same memory.
func (h *fixture) memory(t *testing.T) {
	c := h.server(t, h.gateway.Token)
	found := searchOnceReady(t, c, "canary")
	if found.Source != "gateway" || len(found.Hits) != 1 || found.Hits[0].File != "MEMORY.md" || found.Hits[0].Heading != "Birds" || found.Hits[0].Line != 1 ||
		!strings.Contains(found.Hits[0].Snippet, "otter.example") {
		t.Errorf("%+v", found)
	}
	if found := searchOnceReady(t, c, "staging"); found.Source != "gateway" || found.Hits[0].File != "memory/2026-01-01.md" {
		t.Errorf("%+v", found)
	}
	for tool, want := range map[string]document{
		"openclaw_memory_read": {"MEMORY.md", "# Birds\n\nThe canary sings on otter.example at dawn.\n", "gateway"},
		"openclaw_user_prefs":  {"USER.md", "Tabs, never spaces.\n", "gateway"},
	} {
		if got := call[document](t, c, tool, nil); got != want {
			t.Errorf("%s: %+v", tool, got)
		}
	}
	want := document{"memory/2026-01-01.md", "# Deploy notes\n\nStaging lives on heron.example.\n", "gateway"}
	if got := call[document](t, c, "openclaw_memory_read", map[string]any{"file": "2026-01-01.md"}); got != want {
		t.Errorf("%+v", got)
	}
	// With a wrong token the server still reads the files.
	if found := call[hits](t, h.server(t, "wrong"), "openclaw_memory_search", map[string]any{"query": "canary"}); found.Source != "files" || len(found.Hits) != 1 {
		t.Errorf("%+v", found)
	}
}

// stopped: a server that has used the gateway falls back to the files when the
// gateway stops.
func (h *fixture) stopped(t *testing.T) {
	c := h.server(t, h.gateway.Token)
	if found := searchOnceReady(t, c, "canary"); found.Source != "gateway" {
		t.Errorf("%+v", found)
	}
	h.gateway.Stop(t)
	if found := call[hits](t, c, "openclaw_memory_search", map[string]any{"query": "canary"}); found.Source != "files" || len(found.Hits) != 1 || found.Hits[0].File != "MEMORY.md" {
		t.Errorf("%+v", found)
	}
	if got := call[document](t, c, "openclaw_user_prefs", nil); got != (document{"USER.md", "Tabs, never spaces.\n", "files"}) {
		t.Errorf("%+v", got)
	}
	if checks := h.checks(t, h.gateway.Token); !strings.Contains(checks, "ok: its gateway does not run") {
		t.Errorf("%s", checks)
	}
}

// checks returns what `validate` reports about OpenClaw.
func (h *fixture) checks(t *testing.T, token string) string {
	t.Helper()
	cmd := h.command(token, "validate", "--demo", "--json")
	cmd.Env = append(cmd.Env, "COPILOT_CLI_PATH="+filepath.Join(h.user.Home, "none")) // this test is not about Copilot
	out, _ := cmd.Output()                                                            // so validate fails
	var v struct {
		Checks []struct{ Name, Status, Detail, Remedy string }
	}
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var results []string
	for _, c := range v.Checks {
		if c.Name == "openclaw" {
			results = append(results, c.Status+": "+c.Detail+" → "+c.Remedy)
		}
	}
	return strings.Join(results, "\n")
}

func (h *fixture) validate(t *testing.T) {
	if got := h.checks(t, h.gateway.Token); !strings.HasPrefix(got, "ok: gateway "+openclawtest.Version+" answers") {
		t.Errorf("%s", got)
	}
	if got := h.checks(t, "wrong"); !strings.HasPrefix(got, "warning: OpenClaw's gateway refuses us") || !strings.Contains(got, "OPENCLAW_GATEWAY_TOKEN") {
		t.Errorf("%s", got)
	}
}
