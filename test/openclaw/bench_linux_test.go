package openclaw

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	openclawplugin "github.com/copilot-bridge/copilot-bridge/extensions/openclaw"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// patience is long because test machines are busy.
const patience = 2 * time.Minute

// bench is a user with OpenClaw and the plugin. OpenClaw's agent has a scripted
// model. The plugin runs the real Copilot runtime, which has a second model.
type bench struct {
	user      *openclawtest.User
	gateway   *openclawtest.Gateway
	workspace string
	copilot   *demomodel.Server // the model of Copilot
	asked     *atomic.Int32     // requests to it that are in progress
}

func model(t *testing.T) *demomodel.Server {
	t.Helper()
	return programtest.Model(t)
}

// delegate starts a user message to OpenClaw's agent. A tool name, a space and
// the arguments follow.
const delegate = "DELEGATE "

// agentModel is the model of OpenClaw's agent. It calls the tool that the user
// has named and then repeats the result. OpenClaw adds a user message after a
// result, so the model does not look at the last message only.
func agentModel(t *testing.T) *demomodel.Server {
	t.Helper()
	m := model(t)
	m.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		wish, result := "", ""
		for _, message := range r.Messages {
			if _, line, ok := strings.Cut(message.Content, delegate); ok && message.Role == "user" {
				wish, result = line, ""
			}
			if message.Role == "tool" && wish != "" {
				result = message.Content
			}
		}
		tool, args, _ := strings.Cut(wish, " ")
		args, _, _ = strings.Cut(args, "\n")
		switch {
		case result != "":
			return demomodel.Reply{demomodel.Text("The tool said: " + result)}, true
		case wish != "" && slices.Contains(r.ToolNames(), tool):
			return demomodel.Reply{demomodel.ToolCall(tool, json.RawMessage(args))}, true
		case wish != "":
			return demomodel.Reply{demomodel.Text(fmt.Sprintf("I have no tool %s, only %q.", tool, r.ToolNames()))}, true
		}
		return demomodel.Reply{demomodel.Text("Nothing to do.")}, true
	})
	return m
}

// newBench installs the plugin with OpenClaw's own command, as a user does, and
// starts the gateway.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{user: openclawtest.NewUser(t), copilot: model(t), asked: &atomic.Int32{}}
	resolved, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b.workspace = resolved
	agent := agentModel(t)
	b.user.Env = append(b.user.Env, "COPILOT_CLI_PATH="+runtimetest.Path(t), "COPILOT_BRIDGE_HOME="+filepath.Join(b.user.Home, "bridge"),
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+countingProxy(t, b.copilot.URL(), b.asked), "COPILOT_BYOK_API_KEY="+b.copilot.Key(),
		"COPILOT_BYOK_MODEL="+b.copilot.Model(), "OPENCLAW_PORT=1")
	b.write(t, filepath.Join(b.user.Home, "bridge", "policy.yaml"), "shell: { allow: ['sleep *'] }\n")
	b.user.Configure(t, map[string]any{
		"logging": map[string]any{"file": filepath.Join(b.user.Home, "openclaw.log")},
		"agents":  map[string]any{"defaults": map[string]any{"model": map[string]any{"primary": "rehearsal/" + agent.Model()}, "heartbeat": map[string]any{"every": "0m"}}},
		"models": map[string]any{"providers": map[string]any{"rehearsal": map[string]any{"baseUrl": agent.URL(), "apiKey": agent.Key(), "api": "openai-completions",
			"models": []any{map[string]any{"id": agent.Model(), "name": "Rehearsal", "contextWindow": 200000, "maxTokens": 8192}}}}},
	})
	plugin := filepath.Join(b.user.Home, "plugin")
	if err := os.CopyFS(plugin, openclawplugin.Files()); err != nil {
		t.Fatal(err)
	}
	b.user.Run(t, "plugins", "install", "--link", "--force", "--accept-capabilities", plugin)
	b.settings(t, map[string]any{"binary": binary, "workspace": b.workspace})
	b.gateway = b.user.Start(t)
	t.Cleanup(func() { // OpenClaw only logs the failure of a plugin
		if log := b.gateway.Log(); strings.Contains(log, openclawplugin.ID+" failed") {
			t.Errorf("the plugin failed:\n%s", log)
		}
	})
	return b
}

// countingProxy is a proxy that counts the requests in progress to a server.
func countingProxy(t *testing.T, target string, asked *atomic.Int32) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host}) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		defer asked.Add(-1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + to.Path
}

func (b *bench) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// settings writes the plugin's settings into OpenClaw's configuration.
func (b *bench) settings(t *testing.T, settings map[string]any) {
	t.Helper()
	data, err := os.ReadFile(b.user.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	plugins, _ := config["plugins"].(map[string]any)
	entries, _ := plugins["entries"].(map[string]any)
	entry, _ := entries[openclawplugin.ID].(map[string]any)
	if entry == nil {
		t.Fatalf("the configuration lacks the plugin: %s", data)
	}
	entry["config"] = settings
	b.user.Configure(t, config)
}

// outcome is a tool result from the gateway.
type outcome struct {
	Content []struct{ Type, Text string }
	Details struct {
		OK       bool
		Status   string
		Code     string
		Error    string
		Remedy   string
		TimedOut bool
		Result   json.RawMessage
	}
}

func (o outcome) text() string {
	var b strings.Builder
	for _, c := range o.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

func (b *bench) invoke(t *testing.T, tool string, args any) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o, err := b.try(ctx, tool, args)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (b *bench) try(ctx context.Context, tool string, args any) (outcome, error) {
	var o outcome
	data, err := b.gateway.Invoke(ctx, tool, args)
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(data, &o)
}

// waitUntil polls until is returns true.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

// processes lists the user's processes whose command line contains the text.
func (b *bench) processes(text string) []int {
	var ids []int
	for pid, line := range programtest.Processes(b.user.Home) {
		if strings.Contains(line, text) {
			ids = append(ids, pid)
		}
	}
	return ids
}
