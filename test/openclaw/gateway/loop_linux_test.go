package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// delegate is the bridge's tool as OpenClaw's agent sees it. OpenClaw's model
// calls MCP tools through a wrapper tool. Requests with the wrapper come from
// OpenClaw, others from Copilot.
const (
	delegate = "copilot__copilot_code_task"
	through  = "tool_call"
)

var round = regexp.MustCompile(`ROUND (\d+)`)

// loopingModel is the model of both agents. Asked for a round, OpenClaw's agent
// delegates to Copilot, and Copilot asks OpenClaw's agent for the next round.
func loopingModel(r demomodel.Request) (demomodel.Reply, bool) {
	n := 0
	for _, m := range r.Messages {
		if found := round.FindStringSubmatch(m.Content); m.Role == "user" && found != nil {
			n, _ = strconv.Atoi(found[1])
		}
	}
	result := lastResult(r)
	switch {
	case n == 0:
		return demomodel.Reply{demomodel.Text("Nothing to do.")}, true
	case result != "":
		return demomodel.Reply{demomodel.Text("I was told: " + result)}, true
	case slices.Contains(r.ToolNames(), through):
		return demomodel.Reply{demomodel.ToolCall(through, map[string]any{"id": delegate, "args": map[string]any{"prompt": "ROUND " + strconv.Itoa(n)}})}, true
	case slices.Contains(r.ToolNames(), "bash"):
		return demomodel.Reply{demomodel.ToolCall("bash", map[string]any{"command": "sh again.sh " + strconv.Itoa(n+1), "description": "go on", "initial_wait": 1500})}, true
	}
	return demomodel.Reply{demomodel.Text("I have neither, only " + strings.Join(r.ToolNames(), " "))}, true
}

// lastResult is the last tool result. (OpenClaw adds a user message after it.)
func lastResult(r demomodel.Request) (text string) {
	for _, m := range r.Messages {
		if m.Role == "tool" {
			text = m.Content
		}
	}
	return text
}

// OpenClaw's agent delegates to Copilot, which calls OpenClaw's agent, and so
// on. All calls go through one gateway, which does not pass on who the caller
// is. The fourth Copilot must not start, and its caller gets the reason.
func TestLoop(t *testing.T) {
	u := openclawtest.NewUser(t)
	workspace, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	model := programtest.Model(t)
	model.Handle(loopingModel)
	u.Configure(t, map[string]any{
		"logging": map[string]any{"file": filepath.Join(u.Home, "openclaw.log")},
		"agents":  map[string]any{"defaults": map[string]any{"model": map[string]any{"primary": "rehearsal/" + model.Model()}, "heartbeat": map[string]any{"every": "0m"}}},
		"models": map[string]any{"providers": map[string]any{"rehearsal": map[string]any{"baseUrl": model.URL(), "apiKey": model.Key(), "api": "openai-completions",
			"models": []any{map[string]any{"id": model.Model(), "name": "Rehearsal", "contextWindow": 200000, "maxTokens": 8192}}}}},
	})
	home := filepath.Join(u.Home, "bridge")
	server, err := json.Marshal(map[string]any{"command": binary, "args": []string{"mcp", "copilot", "--workspace", workspace}, "requestTimeoutMs": 1_800_000,
		"env": map[string]string{"COPILOT_CLI_PATH": runtimetest.Path(t), "COPILOT_BRIDGE_HOME": home, "OPENCLAW_PORT": "1",
			"COPILOT_BRIDGE_SANDBOX": "off", // a sandboxed program cannot reach the gateway
			"COPILOT_BYOK_PROVIDER":  "openai", "COPILOT_BYOK_BASE_URL": model.URL(), "COPILOT_BYOK_API_KEY": model.Key(), "COPILOT_BYOK_MODEL": model.Model()}})
	if err != nil {
		t.Fatal(err)
	}
	u.Run(t, "mcp", "set", "copilot", string(server))
	g := u.Start(t)
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(home, "policy.yaml"): "shell: { allow: ['sh again.sh *'] }\n",
		filepath.Join(workspace, "again.sh"): "echo \"$COPILOT_BRIDGE_DEPTH\" >> depths.txt\n" +
			"export OPENCLAW_GATEWAY_TOKEN=" + g.Token + " OPENCLAW_GATEWAY_PORT=" + strconv.Itoa(g.Port) + "\n" +
			"exec openclaw agent --agent main --session-key agent:main:round$1 --message \"ROUND $1\" --json --timeout 1500\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := u.Command(ctx, "agent", "--agent", "main", "--session-key", "agent:main:round1", "--message", "ROUND 1", "--json", "--timeout", "1500")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s\n%s", err, &stdout, &stderr)
	}
	if depths, err := os.ReadFile(filepath.Join(workspace, "depths.txt")); err != nil || string(depths) != "1\n2\n3\n" {
		t.Errorf("Copilot was at the depths %q, %v", depths, err)
	}
	const loop = "[denied] copilot-bridge was called from within itself 3 times; that is a loop"
	var copilots, loopErrors []string
	for _, r := range model.Requests() {
		current := ""
		for _, m := range r.Messages {
			if found := round.FindString(m.Content); m.Role == "user" && found != "" {
				current = found
			}
		}
		switch {
		case slices.Contains(r.ToolNames(), "bash") && lastResult(r) == "":
			copilots = append(copilots, current)
		case slices.Contains(r.ToolNames(), through) && strings.Contains(lastResult(r), loop) && current == "ROUND 4":
			loopErrors = append(loopErrors, current)
		}
	}
	if !slices.Equal(copilots, []string{"ROUND 1", "ROUND 2", "ROUND 3"}) || len(loopErrors) != 1 {
		t.Errorf("Copilot was asked for the rounds %q, and OpenClaw's model got the loop error in %q; output:\n%s", copilots, loopErrors, &stdout)
	}
}
