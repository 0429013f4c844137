package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/registration"
)

// openClaw is what validate says of it to machines.
type openClaw struct {
	Found     bool   `json:"found"`
	Config    string `json:"config,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Gateway   string `json:"gateway,omitempty"` // its version, if it answers
	*registration.State
}

// openclaw looks for OpenClaw, which is optional.
func (v *validation) openclaw(ctx context.Context, cfg *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	found := app.FindOpenClaw(ctx, v.p.options(cfg))
	v.OpenClaw = &openClaw{Found: found.Present}
	if !found.Present {
		v.ok("openclaw", "not found, and not needed")
		return
	}
	*v.OpenClaw = openClaw{Found: true, Config: found.Config, Workspace: found.Workspace, Gateway: found.Version, State: &found.Registered}
	memory := "its memory is in " + v.p.short(found.Workspace)
	switch e := bridge.AsError(found.Gateway); {
	case e == nil:
		v.ok("openclaw", "gateway %s answers; %s", found.Version, memory)
	case notListening(found.Gateway):
		v.ok("openclaw", "its gateway does not run; %s", memory)
	default:
		v.warn("openclaw", e.Error()+"; "+memory, e.Remedy)
	}
	if found.Problem != nil {
		v.warn("openclaw", found.Problem.Error(), "mend it, or set OPENCLAW_CONFIG_PATH")
		return
	}
	v.registrations(found.Registered)
}

// notListening says whether a gateway could not even be connected to.
func notListening(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// registrations says what OpenClaw knows of this program.
func (v *validation) registrations(s registration.State) {
	v.plugin(s.Plugin)
	v.server(s.Server)
	if !s.Plugin.Registered && !s.Server.Registered {
		v.ok("openclaw", "this program is not registered there; `copilot-bridge register openclaw` would do that")
	}
	if len(s.Persona) > 0 {
		var of []string
		for _, t := range s.Persona {
			of = append(of, string(t))
		}
		v.ok("openclaw", "its agent is told about it in AGENTS.md (%s)", strings.Join(of, ", "))
	}
}

func (v *validation) plugin(s registration.PluginState) {
	const again = "run `copilot-bridge register openclaw`"
	if !s.Registered {
		return
	}
	where := "the workspace of OpenClaw's agent"
	if s.Workspace != "" {
		where = v.p.short(s.Workspace)
	}
	program := "the copilot-bridge on the gateway's PATH"
	if s.Binary != "" {
		program = v.p.short(s.Binary)
	}
	switch {
	case !s.Enabled:
		v.warn("openclaw", "the plugin is installed, but not enabled", again+", or see plugins.enabled, plugins.allow and plugins.deny in OpenClaw's configuration")
	case !s.Current:
		v.warn("openclaw", "the plugin is enabled, but its files in "+v.p.short(s.Directory)+" are not those of this version", again)
	case s.Missing:
		v.warn("openclaw", fmt.Sprintf("the plugin starts %q, which is not there", s.Binary), again)
	default:
		v.ok("openclaw", "the plugin is enabled and up to date; it starts %s in %s", program, where)
	}
}

func (v *validation) server(s registration.ServerState) {
	switch {
	case s.Foreign:
		v.ok("openclaw", "its MCP server called copilot is not this program")
	case s.Missing:
		v.warn("openclaw", fmt.Sprintf("the MCP server is registered, but %q is not there", s.Binary), "run `copilot-bridge register openclaw-mcp`")
	case s.Registered:
		v.ok("openclaw", "the MCP server is registered; it starts %s in %s", v.p.short(s.Binary), v.p.short(s.Workspace))
	}
}
