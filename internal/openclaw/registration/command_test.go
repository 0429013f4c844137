package registration

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// command puts a program called openclaw on the PATH.
func (h *house) command(t *testing.T, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("it needs a shell script")
	}
	dir := filepath.Join(h.home, "bin")
	h.write(t, "bin/openclaw", "#!/bin/sh\n"+script)
	if err := os.Chmod(filepath.Join(dir, "openclaw"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "PATH="+dir+":/usr/bin:/bin")
}

func TestCommandFails(t *testing.T) {
	for name, tt := range map[string]struct{ script, says, remedy string }{
		"error":   {"echo 'config is odd, token=abcdefgh12345678ZYX' >&2; exit 3", "config is odd", "--method edit"},
		"too old": {"printf '\\033[31merror: unknown option --accept-capabilities\\033[0m\\n'; exit 1", "error: unknown option", "too old"},
		"locked":  {"echo 'gateway: unauthorized: AUTH_TOKEN_MISMATCH'; exit 1", "unauthorized", "OPENCLAW_GATEWAY_TOKEN"},
		"chatty":  {"for i in $(seq 100); do echo line $i; done; exit 1", "(88 lines more)\nline 89\n", "--method edit"},
	} {
		for _, target := range []Target{Plugin, Server} {
			t.Run(name+" "+string(target), func(t *testing.T) {
				config := "{\n  \"gateway\": {}\n}\n"
				h := newHouse(t, config)
				h.command(t, tt.script)
				_, err := h.registrar().Register(t.Context(), Request{Target: target, Workspace: "/w"})
				e := bridge.AsError(err)
				if code := bridge.CodeOf(err); code != bridge.CodeConflict && code != bridge.CodeUnsupported || !strings.Contains(err.Error(), tt.says) || !strings.Contains(e.Remedy, tt.remedy) || strings.Contains(err.Error(), "abcdefgh1234") || strings.Contains(err.Error(), "\x1b") {
					t.Errorf("%v → %s", err, e.Remedy)
				}
				if h.config(t) != config || h.read(t, ".copilot-bridge/openclaw-plugin/index.js") != "(none)" || h.read(t, ".copilot-bridge/openclaw-registration.json") != "(none)" {
					t.Errorf("something is left: %s", h.config(t))
				}
			})
		}
	}
}

func TestChoice(t *testing.T) {
	h := newHouse(t, "{}")
	h.command(t, "echo \"$@\" >> \"$HOME/calls\"; env | grep OPENCLAW_ >> \"$HOME/calls\"; exit 0")
	h.opts.Token, h.opts.Port = "gateway-token-1234", 4711
	r := h.register(t, Request{Target: Server, Method: Auto, Workspace: "/w", DryRun: true}, Registered)
	if r.Method != Command || len(r.Commands) != 1 || !strings.HasPrefix(r.Commands[0], `openclaw mcp set copilot '{"command":`) || h.read(t, "calls") != "(none)" {
		t.Errorf("%+v", r)
	}
	h.register(t, Request{Target: Server, Method: Auto, Workspace: "/w"}, Registered)
	if calls := h.read(t, "calls"); !strings.HasPrefix(calls, "mcp set copilot {") || !strings.Contains(calls, "OPENCLAW_GATEWAY_TOKEN=gateway-token-1234\n") || !strings.Contains(calls, "OPENCLAW_GATEWAY_PORT=4711\n") {
		t.Errorf("%s", calls)
	}
	// Comments and secrets are not for the command.
	h = newHouse(t, "{} // mine")
	h.command(t, "exit 1")
	if r := h.register(t, Request{Target: Plugin, Method: Auto}, Registered); r.Method != Edit || len(r.Notes) != 1 {
		t.Errorf("%+v", r)
	}
	h = newHouse(t, "{}")
	h.command(t, "exit 1")
	secret := Request{Target: Server, Method: Auto, Workspace: "/w", Env: map[string]string{"K": "s"}, Secrets: true}
	if r := h.register(t, secret, Registered); r.Method != Edit || len(r.Commands) != 0 {
		t.Errorf("%+v", r)
	}
	secret.Method = Command
	if _, err := h.registrar().Register(t.Context(), secret); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// Who changes the method gets the other one, and is told what remains.
func TestMethodsChange(t *testing.T) {
	h := newHouse(t, "{}")
	h.command(t, "echo \"$@\" >> \"$HOME/calls\"; exit 0")
	h.register(t, Request{Target: Plugin, Method: Edit}, Registered)
	h.register(t, Request{Target: Plugin, Method: Auto}, Already) // as it was begun
	if h.read(t, "calls") != "(none)" {
		t.Error("the command was called")
	}
	h.register(t, Request{Target: Plugin, Method: Command}, Updated)
	if calls := h.read(t, "calls"); !strings.HasPrefix(calls, "plugins install --link --force --accept-capabilities ") {
		t.Errorf("%s", calls)
	}
	if r := h.unregister(t, Request{Target: Plugin, Method: Edit}, Unregistered); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "plugins uninstall") || h.config(t) != "{}" {
		t.Errorf("%+v, %s", r, h.config(t))
	}
}

// A bridge that was killed before it changed anything has left a record.
func TestKilledBetween(t *testing.T) {
	h := newHouse(t, "{} // mine")
	h.register(t, Request{Target: Plugin, Persona: true}, Registered)
	h.write(t, ".openclaw/openclaw.json", "{} // mine")
	h.unregister(t, Request{Target: Plugin}, Unregistered)
	if h.config(t) != "{} // mine" || h.read(t, ".openclaw/workspace/AGENTS.md") != "(none)" || h.read(t, ".copilot-bridge/openclaw-registration.json") != "(none)" {
		t.Errorf("%s", h.config(t))
	}
}

// OpenClaw's command does not write much less than there was.
func TestLittleIsLeft(t *testing.T) {
	for rest, want := range map[int]Method{10: Edit, 10_000: Command} {
		h := newHouse(t, `{"gateway": {"x": "`+strings.Repeat("x", rest)+`"}}`)
		before := h.config(t)
		h.register(t, Request{Target: Server, Method: Edit, Workspace: "/w"}, Registered)
		h.command(t, "exit 0")
		if err := os.Remove(filepath.Join(h.opts.Home, "openclaw-registration.json")); err != nil {
			t.Fatal(err)
		}
		if r := h.unregister(t, Request{Target: Server, Method: Command}, Unregistered); r.Method != want || want == Edit && h.config(t) != before {
			t.Errorf("%+v, %s", r, h.config(t))
		}
	}
}

// What comes from other files is left to the command.
func TestIncludedByCommand(t *testing.T) {
	config := `{"plugins": {"$include": "./p.json"}}`
	h := newHouse(t, config)
	h.command(t, "echo \"$1 $2 $3\" >> \"$HOME/calls\"; exit 0")
	h.register(t, Request{Target: Plugin, Method: Auto}, Registered)
	h.unregister(t, Request{Target: Plugin}, Unregistered)
	if calls, want := h.read(t, "calls"), "plugins install --link\nconfig set plugins.entries.copilot-bridge.config\nplugins uninstall --force\nconfig unset plugins.entries.copilot-bridge\n"; calls != want || h.config(t) != config {
		t.Errorf("%s\n%s", calls, h.config(t))
	}
}
