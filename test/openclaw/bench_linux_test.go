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
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
	"github.com/copilot-bridge/copilot-bridge/test/openclaw/openclawtest"
)

// patience is long because machines that run tests are busy.
const patience = 2 * time.Minute

// bench is a user with OpenClaw, whose agent has a scripted model, and the
// plugin, behind which the real Copilot runtime has another.
type bench struct {
	user      *openclawtest.User
	gateway   *openclawtest.Gateway
	workspace string
	copilot   *rehearsal.Server // the words of Copilot's model
	asked     *atomic.Int32     // requests that it has not answered yet
}

func model(t *testing.T) *rehearsal.Server {
	t.Helper()
	m := rehearsal.New()
	if err := m.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("closing a model: %v", err)
		}
	})
	return m
}

// delegate begins what a user tells OpenClaw's agent: a line with the tool,
// a space and its arguments follows.
const delegate = "DELEGATE "

// agentModel is the model of OpenClaw's agent: it calls the tool that the user
// has named, and when there is a result it repeats it. OpenClaw adds a message
// of its own in the user's name after a result, so it is not the last message
// that counts.
func agentModel(t *testing.T) *rehearsal.Server {
	t.Helper()
	m := model(t)
	m.Handle(func(r rehearsal.Request) (rehearsal.Reply, bool) {
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
			return rehearsal.Reply{rehearsal.Text("The tool said: " + result)}, true
		case wish != "" && slices.Contains(r.ToolNames(), tool):
			return rehearsal.Reply{rehearsal.ToolCall(tool, json.RawMessage(args))}, true
		case wish != "":
			return rehearsal.Reply{rehearsal.Text(fmt.Sprintf("I have no tool %s, only %q.", tool, r.ToolNames()))}, true
		}
		return rehearsal.Reply{rehearsal.Text("Nothing to do.")}, true
	})
	return m
}

// newBench installs the plugin as a user would, with OpenClaw's own command,
// and starts the gateway.
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
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+watched(t, b.copilot.URL(), b.asked), "COPILOT_BYOK_API_KEY="+b.copilot.Key(),
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
	t.Cleanup(func() { // OpenClaw goes on without a plugin that fails, and tells only its log
		if log := b.gateway.Log(); strings.Contains(log, openclawplugin.ID+" failed") {
			t.Errorf("the plugin failed:\n%s", log)
		}
	})
	return b
}

// watched counts the requests to a server that are under way.
func watched(t *testing.T, target string, asked *atomic.Int32) string {
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

// settings writes the plugin's own settings into OpenClaw's configuration.
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
		t.Fatalf("OpenClaw has not entered the plugin: %s", data)
	}
	entry["config"] = settings
	b.user.Configure(t, config)
}

// outcome is the result of a tool as the gateway gives it.
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

// until polls; the machine may be busy.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// processes are those of the user whose command line holds a text.
func (b *bench) processes(t *testing.T, text string) []int {
	t.Helper()
	var ids []int
	for _, p := range openclawtest.Processes(t, b.user.Home) {
		if strings.Contains(p.Line, text) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
