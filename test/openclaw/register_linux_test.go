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

	"github.com/copilot-bridge/copilot-bridge/test/openclaw/openclawtest"
)

// settler is a user of OpenClaw who registers the bridge.
type settler struct {
	*openclawtest.User
	dir string // where they want Copilot to work
}

func newSettler(t *testing.T, config any) *settler {
	t.Helper()
	s := &settler{User: openclawtest.NewUser(t), dir: t.TempDir()}
	s.Env = append(s.Env, "COPILOT_BRIDGE_HOME="+filepath.Join(s.Home, "bridge"))
	s.Configure(t, config)
	return s
}

// told is what register and unregister say with --json.
type told struct {
	Outcome, Method, Backup string
	Commands, Notes         []string
}

// bridge runs `copilot-bridge ARGS… --json`. Without with OpenClaw's command is
// not on the PATH.
func (s *settler) bridge(t *testing.T, with bool, into any, args ...string) {
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

func (s *settler) expect(t *testing.T, with bool, want, method string, args ...string) told {
	t.Helper()
	var o told
	s.bridge(t, with, &o, args...)
	if o.Outcome != want || o.Method != method {
		t.Fatalf("%q: %+v; want %s by %s", args, o, want, method)
	}
	return o
}

func (s *settler) config(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// probed lists the tools that OpenClaw finds when it connects to the server.
func (s *settler) probed(t *testing.T) []string {
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

// listed is the plugin in OpenClaw's own list.
func (s *settler) listed(t *testing.T) (enabled bool, tools []string) {
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

// takesUp waits until the gateway knows the plugin's tool, or no longer does.
// The call is wrong on purpose: the answer comes from the bridge all the same.
func takesUp(t *testing.T, g *openclawtest.Gateway, want bool) {
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
			t.Fatalf("the gateway has not taken it up: %s, %v", answer, err)
		}
	}
}

var pluginTools = []string{"copilot_code", "copilot_code_verbose", "copilot_orchestrate"}
var serverTools = []string{"copilot_code_task", "copilot_create_file", "copilot_list_files", "copilot_orchestrate", "copilot_read_file"}

// TestRegisterByCommand lets OpenClaw's own command do it, with its gateway
// running. Its configuration is one that OpenClaw has written itself.
func TestRegisterByCommand(t *testing.T) {
	s := newSettler(t, map[string]any{"gateway": map[string]any{"mode": "local"},
		// OpenClaw refuses to write less than half of what there was.
		"env": map[string]any{"vars": map[string]any{"MUCH": strings.Repeat("more ", 400)}}})
	s.Run(t, "config", "set", "logging.file", filepath.Join(s.Home, "openclaw.log"))
	g := s.Start(t)
	before := s.config(t)

	o := s.expect(t, true, "registered", "command", "register", "openclaw", "--workspace", s.dir)
	if len(o.Commands) != 1 || !strings.HasPrefix(o.Commands[0], "openclaw plugins install --link --force") {
		t.Errorf("%+v", o)
	}
	takesUp(t, g, true)
	if enabled, tools := s.listed(t); !enabled || !slices.Equal(tools, pluginTools) {
		t.Errorf("%v, %q", enabled, tools)
	}
	s.expect(t, true, "already", "command", "register", "openclaw", "--workspace", s.dir)

	s.expect(t, true, "registered", "command", "register", "openclaw-mcp", "--workspace", s.dir)
	if tools := s.probed(t); !slices.Equal(tools, serverTools) {
		t.Errorf("%q", tools)
	}
	s.expect(t, true, "already", "command", "register", "openclaw-mcp", "--workspace", s.dir)

	s.expect(t, true, "unregistered", "command", "unregister", "openclaw")
	takesUp(t, g, false)
	s.expect(t, true, "unregistered", "command", "unregister", "openclaw-mcp")
	if after := s.config(t); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	s.expect(t, true, "absent", "command", "unregister", "openclaw")
}

// TestRegisterByEditing has no command of OpenClaw's: the configuration, which
// has comments, is edited under the eyes of a gateway that runs.
func TestRegisterByEditing(t *testing.T) {
	s := newSettler(t, `// how I like it
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
		t.Fatalf("the gateway itself has written anew:\n%s", before)
	}
	agents := filepath.Join(s.Home, ".openclaw", "workspace", "AGENTS.md")
	if err := os.MkdirAll(filepath.Dir(agents), 0o700); err != nil {
		t.Fatal(err)
	}
	persona, err := os.ReadFile(agents)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}

	s.expect(t, false, "registered", "edit", "register", "openclaw", "--workspace", s.dir, "--persona")
	takesUp(t, g, true)
	s.expect(t, false, "registered", "edit", "register", "openclaw-mcp", "--workspace", s.dir)
	if got := s.config(t); !strings.Contains(got, "// no heart") || !strings.Contains(got, "'local', }, // at home") {
		t.Errorf("the comments have gone:\n%s", got)
	}
	if tools := s.probed(t); !slices.Equal(tools, serverTools) {
		t.Errorf("%q", tools)
	}
	if enabled, tools := s.listed(t); !enabled || !slices.Equal(tools, pluginTools) {
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

	s.expect(t, false, "unregistered", "edit", "unregister", "openclaw")
	takesUp(t, g, false)
	s.expect(t, false, "unregistered", "edit", "unregister", "openclaw-mcp")
	if after := s.config(t); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if now, err := os.ReadFile(agents); err != nil && !os.IsNotExist(err) || !bytes.Equal(now, persona) {
		t.Errorf("%q became %q, %v", persona, now, err)
	}
}

// validate runs `copilot-bridge validate`, whose exit code speaks of Copilot.
func (s *settler) validate(t *testing.T, g *openclawtest.Gateway, into any) {
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
