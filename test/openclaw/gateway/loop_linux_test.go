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

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
	"github.com/copilot-bridge/copilot-bridge/test/openclaw/openclawtest"
)

// delegate is the bridge's tool, as OpenClaw's agent knows it. Its model calls
// tools of MCP servers through another, which is also what tells its requests
// from those of Copilot's.
const (
	delegate = "copilot__copilot_code_task"
	through  = "tool_call"
)

var round = regexp.MustCompile(`ROUND (\d+)`)

// looping is the model of both agents. Told to go a round, OpenClaw's delegates
// it to Copilot, and Copilot's asks OpenClaw's agent for the next one.
func looping(r rehearsal.Request) (rehearsal.Reply, bool) {
	n := 0
	for _, m := range r.Messages {
		if found := round.FindStringSubmatch(m.Content); m.Role == "user" && found != nil {
			n, _ = strconv.Atoi(found[1])
		}
	}
	result := lastResult(r)
	switch {
	case n == 0:
		return rehearsal.Reply{rehearsal.Text("Nothing to do.")}, true
	case result != "":
		return rehearsal.Reply{rehearsal.Text("I was told: " + result)}, true
	case slices.Contains(r.ToolNames(), through):
		return rehearsal.Reply{rehearsal.ToolCall(through, map[string]any{"id": delegate, "args": map[string]any{"prompt": "ROUND " + strconv.Itoa(n)}})}, true
	case slices.Contains(r.ToolNames(), "bash"):
		return rehearsal.Reply{rehearsal.ToolCall("bash", map[string]any{"command": "sh again.sh " + strconv.Itoa(n+1), "description": "go on", "initial_wait": 1500})}, true
	}
	return rehearsal.Reply{rehearsal.Text("I have neither, only " + strings.Join(r.ToolNames(), " "))}, true
}

// lastResult is what a tool has said last. (OpenClaw adds a message in the
// user's name after it.)
func lastResult(r rehearsal.Request) (text string) {
	for _, m := range r.Messages {
		if m.Role == "tool" {
			text = m.Content
		}
	}
	return text
}

// OpenClaw's agent delegates to Copilot, which calls OpenClaw's agent, and so
// on, all through one gateway that tells nobody who has called it. The fourth
// Copilot is not started, and its caller is told why.
func TestLoop(t *testing.T) {
	u := openclawtest.NewUser(t)
	workspace, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	model := rehearsal.New()
	if err := model.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	model.Handle(looping)
	u.Configure(t, map[string]any{
		"logging": map[string]any{"file": filepath.Join(u.Home, "openclaw.log")},
		"agents":  map[string]any{"defaults": map[string]any{"model": map[string]any{"primary": "rehearsal/" + model.Model()}, "heartbeat": map[string]any{"every": "0m"}}},
		"models": map[string]any{"providers": map[string]any{"rehearsal": map[string]any{"baseUrl": model.URL(), "apiKey": model.Key(), "api": "openai-completions",
			"models": []any{map[string]any{"id": model.Model(), "name": "Rehearsal", "contextWindow": 200000, "maxTokens": 8192}}}}},
	})
	home := filepath.Join(u.Home, "bridge")
	server, err := json.Marshal(map[string]any{"command": binary, "args": []string{"mcp", "copilot", "--workspace", workspace}, "requestTimeoutMs": 1_800_000,
		"env": map[string]string{"COPILOT_CLI_PATH": runtimetest.Path(t), "COPILOT_BRIDGE_HOME": home, "OPENCLAW_PORT": "1",
			"COPILOT_BYOK_PROVIDER": "openai", "COPILOT_BYOK_BASE_URL": model.URL(), "COPILOT_BYOK_API_KEY": model.Key(), "COPILOT_BYOK_MODEL": model.Model()}})
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
	var copilots, told []string
	for _, r := range model.Requests() {
		said := ""
		for _, m := range r.Messages {
			if found := round.FindString(m.Content); m.Role == "user" && found != "" {
				said = found
			}
		}
		switch {
		case slices.Contains(r.ToolNames(), "bash") && lastResult(r) == "":
			copilots = append(copilots, said)
		case slices.Contains(r.ToolNames(), through) && strings.Contains(lastResult(r), loop) && said == "ROUND 4":
			told = append(told, said)
		}
	}
	if !slices.Equal(copilots, []string{"ROUND 1", "ROUND 2", "ROUND 3"}) || len(told) != 1 {
		t.Errorf("Copilot was asked to go %q, and OpenClaw's model told of the loop in %q; in the end:\n%s", copilots, told, &stdout)
	}
}
