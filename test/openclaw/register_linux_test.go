package openclaw

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
)

// registrar is a user of OpenClaw who registers the bridge.
type registrar struct {
	*openclawtest.User
	dir string // the directory where Copilot should work
}

func newRegistrar(t *testing.T, config any) *registrar {
	t.Helper()
	s := &registrar{User: openclawtest.NewUser(t), dir: t.TempDir()}
	s.Env = append(s.Env, "COPILOT_BRIDGE_HOME="+filepath.Join(s.Home, "bridge"))
	s.Configure(t, config)
	return s
}

// registerResult is the output of register and unregister with --json.
type registerResult struct {
	Outcome, Method, Backup string
	Commands, Notes         []string
}

// bridge runs `copilot-bridge ARGS… --json`. If with is false, OpenClaw's
// command is not on the PATH.
func (s *registrar) bridge(t *testing.T, with bool, into any, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--json")...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, s.Environ(), 10*time.Second
	if !with {
		cmd.Env = append(cmd.Env, "PATH=/usr/bin:/bin")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("copilot-bridge %q: %v\n%s\n%s", args, err, &stdout, &stderr)
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
}

func (s *registrar) checkOutcome(t *testing.T, with bool, want, method string, args ...string) registerResult {
	t.Helper()
	var o registerResult
	s.bridge(t, with, &o, args...)
	if o.Outcome != want || o.Method != method {
		t.Fatalf("%q: %+v; want %s by %s", args, o, want, method)
	}
	return o
}

func (s *registrar) config(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// probedTools lists the tools that OpenClaw finds when it connects to the
// server.
func (s *registrar) probedTools(t *testing.T) []string {
	t.Helper()
	text := s.Run(t, "mcp", "probe", "copilot", "--json")
	var p struct{ Tools []any }
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var names []string
	for _, want := range []string{"copilot_code_task", "copilot_create_file", "copilot_list_files", "copilot_orchestrate", "copilot_read_file"} {
		if strings.Contains(text, `"copilot__`+want+`"`) {
			names = append(names, want)
		}
	}
	if len(p.Tools) != len(names) {
		t.Errorf("%s", text)
	}
	return names
}

// listedPlugin returns the plugin's state from OpenClaw's list of plugins.
func (s *registrar) listedPlugin(t *testing.T) (enabled bool, tools []string) {
	t.Helper()
	text := s.Run(t, "plugins", "list", "--json")
	var l struct {
		Plugins []struct {
			ID        string
			Enabled   bool
			ToolNames []string
		}
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, p := range l.Plugins {
		if p.ID == "copilot-bridge" {
			return p.Enabled, p.ToolNames
		}
	}
	return false, nil
}

// waitForPlugin waits until the gateway has the plugin's tool, or no longer has
// it. The call is invalid on purpose: the bridge still answers it.
func waitForPlugin(t *testing.T, g *openclawtest.Gateway, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := g.Invoke(ctx, "copilot_code", map[string]any{"task": 7})
		known := err == nil && bytes.Contains(answer, []byte("task"))
		unknown := err != nil && strings.Contains(err.Error(), "status 404")
		if want && known || !want && unknown {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the gateway still has its old settings: %s, %v", answer, err)
		}
	}
}

var pluginTools = []string{"copilot_code", "copilot_code_verbose", "copilot_orchestrate"}
var serverTools = []string{"copilot_code_task", "copilot_create_file", "copilot_list_files", "copilot_orchestrate", "copilot_read_file"}

// TestRegisterByCommand registers with OpenClaw's own command while its gateway
// runs. OpenClaw has written its configuration itself.
func TestRegisterByCommand(t *testing.T) {
	s := newRegistrar(t, map[string]any{"gateway": map[string]any{"mode": "local"},
		// OpenClaw refuses to shrink its configuration by more than half.
		"env": map[string]any{"vars": map[string]any{"MUCH": strings.Repeat("more ", 400)}}})
	s.Run(t, "config", "set", "logging.file", filepath.Join(s.Home, "openclaw.log"))
	g := s.Start(t)
	before := s.config(t)

	o := s.checkOutcome(t, true, "registered", "command", "register", "openclaw", "--workspace", s.dir)
	if len(o.Commands) != 1 || !strings.HasPrefix(o.Commands[0], "openclaw plugins install --link --force") {
		t.Errorf("%+v", o)
	}
	waitForPlugin(t, g, true)
	if enabled, tools := s.listedPlugin(t); !enabled || !slices.Equal(tools, pluginTools) {
		t.Errorf("%v, %q", enabled, tools)
	}
	s.checkOutcome(t, true, "already", "command", "register", "openclaw", "--workspace", s.dir)

	s.checkOutcome(t, true, "registered", "command", "register", "openclaw-mcp", "--workspace", s.dir)
	if tools := s.probedTools(t); !slices.Equal(tools, serverTools) {
		t.Errorf("%q", tools)
	}
	s.checkOutcome(t, true, "already", "command", "register", "openclaw-mcp", "--workspace", s.dir)

	s.checkOutcome(t, true, "unregistered", "command", "unregister", "openclaw")
	waitForPlugin(t, g, false)
	s.checkOutcome(t, true, "unregistered", "command", "unregister", "openclaw-mcp")
	if after := s.config(t); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	s.checkOutcome(t, true, "absent", "command", "unregister", "openclaw")
}

// TestRegisterByEditing registers without OpenClaw's command: register edits
// the configuration, which has comments, while a gateway watches it.
func TestRegisterByEditing(t *testing.T) {
	s := newRegistrar(t, `// how I like it
{
  gateway: { mode: 'local', }, // at home
  logging: { "file": "`+"LOG"+`" },
  agents: {
    // no heart
    defaults: { heartbeat: { every: "0m" } },
  },
}
`)
	s.Configure(t, strings.ReplaceAll(s.config(t), "LOG", filepath.Join(s.Home, "openclaw.log")))
	g := s.Start(t)
	before := s.config(t)
	if !strings.Contains(before, "// no heart") {
		t.Fatalf("the gateway has rewritten the configuration:\n%s", before)
	}
	agents := filepath.Join(s.Home, ".openclaw", "workspace", "AGENTS.md")
	if err := os.MkdirAll(filepath.Dir(agents), 0o700); err != nil {
		t.Fatal(err)
	}
	persona, err := os.ReadFile(agents)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}

	s.checkOutcome(t, false, "registered", "edit", "register", "openclaw", "--workspace", s.dir, "--persona")
	waitForPlugin(t, g, true)
	s.checkOutcome(t, false, "registered", "edit", "register", "openclaw-mcp", "--workspace", s.dir)
	if got := s.config(t); !strings.Contains(got, "// no heart") || !strings.Contains(got, "'local', }, // at home") {
		t.Errorf("the comments are lost:\n%s", got)
	}
	if tools := s.probedTools(t); !slices.Equal(tools, serverTools) {
		t.Errorf("%q", tools)
	}
	if enabled, tools := s.listedPlugin(t); !enabled || !slices.Equal(tools, pluginTools) {
		t.Errorf("%v, %q", enabled, tools)
	}
	s.Run(t, "config", "validate")

	var v struct {
		OpenClaw struct {
			Found   bool
			Gateway string
			Plugin  struct{ Registered, Enabled, Current bool }
			MCP     struct {
				Registered bool
				Workspace  string
			}
			Persona []string
		}
	}
	s.validate(t, g, &v)
	if c := v.OpenClaw; !c.Found || c.Gateway == "" || !c.Plugin.Registered || !c.Plugin.Enabled || !c.Plugin.Current || !c.MCP.Registered || c.MCP.Workspace != s.dir || !slices.Equal(c.Persona, []string{"openclaw"}) {
		t.Errorf("%+v", c)
	}

	s.checkOutcome(t, false, "unregistered", "edit", "unregister", "openclaw")
	waitForPlugin(t, g, false)
	s.checkOutcome(t, false, "unregistered", "edit", "unregister", "openclaw-mcp")
	if after := s.config(t); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if now, err := os.ReadFile(agents); err != nil && !os.IsNotExist(err) || !bytes.Equal(now, persona) {
		t.Errorf("%q became %q, %v", persona, now, err)
	}
}

// validate runs `copilot-bridge validate`. Its exit code depends on Copilot
// only.
func (s *registrar) validate(t *testing.T, g *openclawtest.Gateway, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "validate", "--json")
	cmd.Dir, cmd.WaitDelay = s.dir, 10*time.Second
	cmd.Env = append(s.Environ(), "OPENCLAW_PORT="+g.URL[strings.LastIndex(g.URL, ":")+1:])
	out, _ := cmd.Output()
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
