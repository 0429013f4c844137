package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/mcp"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/registration"
)

// memoryName is what sessions call the server with OpenClaw's memory.
const memoryName = "openclaw"

// OpenClaw is the memory of the installation that a configuration means. The
// caller must close it.
func OpenClaw(o Options) *openclaw.Memory {
	c := o.Config
	return openclaw.Open(openclaw.Options{
		Places: places(o), Host: c.OpenClaw.Host, Port: c.OpenClaw.Port, Token: string(c.OpenClaw.GatewayToken),
		Version: o.Version, Identity: c.Path("openclaw-device.json"), Logger: o.Logger,
	})
}

// places is where that installation keeps its things.
func places(o Options) openclaw.Places {
	return openclaw.Find(o.env, o.UserDir, o.Config.OpenClaw.Agent)
}

// FoundOpenClaw is what there is of OpenClaw on this machine.
type FoundOpenClaw struct {
	Present    bool
	Config     string
	Workspace  string
	Problem    error              // with its configuration
	Version    string             // of the gateway
	Gateway    error              // why it did not answer
	Registered registration.State // what it knows of the bridge
}

// FindOpenClaw looks for OpenClaw, asks its gateway who it is, and sees what is
// registered there.
func FindOpenClaw(ctx context.Context, o Options) FoundOpenClaw {
	at := places(o)
	out := FoundOpenClaw{Present: at.Present, Config: at.Config, Workspace: at.Workspace, Problem: at.Problem}
	if !at.Present {
		return out
	}
	var err error
	if out.Registered, err = Registrar(o, nil).State(); err != nil && out.Problem == nil {
		out.Problem = err
	}
	m := OpenClaw(o)
	defer m.Close()
	out.Version, out.Gateway = m.Gateway(ctx)
	return out
}

// remembers says whether agent sessions get OpenClaw's memory. What they start
// must not be too deep to answer.
func (b *Bridge) remembers() bool {
	c := b.opts.Config.OpenClaw
	switch {
	case b.opts.Self == "" || c.Memory == "off" || b.depth+1 >= guard.MaxDepth:
		return false
	case c.Memory == "on":
		return true
	}
	return places(b.opts).Present
}

// memoryServer is this program as a server of OpenClaw's memory. The runtime
// starts it with a session and ends it with the session; it belongs to the
// runtime's tree of processes, so it cannot outlive that either.
func (b *Bridge) memoryServer(workspace string) map[string]bridge.MCPServer {
	if !b.remembers() {
		return nil
	}
	c := b.opts.Config
	env := map[string]string{
		guard.DepthVariable: strconv.Itoa(b.depth + 1), "COPILOT_BRIDGE_HOME": c.Home, "COPILOT_AUDIT_LOG_DIR": c.AuditLogDir,
		"OPENCLAW_HOST": c.OpenClaw.Host, "OPENCLAW_PORT": strconv.Itoa(c.OpenClaw.Port),
	}
	if c.OpenClaw.Agent != "" {
		env["COPILOT_BRIDGE_OPENCLAW_AGENT"] = c.OpenClaw.Agent
	}
	if c.OpenClaw.GatewayToken != "" { // with the session, never in the environment of the agent's shells
		env["OPENCLAW_GATEWAY_TOKEN"] = string(c.OpenClaw.GatewayToken)
	}
	for _, name := range []string{"HOME", "USERPROFILE", "OPENCLAW_PROFILE", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_WORKSPACE_DIR"} {
		if v := b.opts.env(name); v != "" {
			env[name] = v
		}
	}
	return map[string]bridge.MCPServer{memoryName: {Command: b.opts.Self, Args: []string{"mcp", "openclaw"}, Env: env, Dir: workspace, Timeout: 30 * time.Second, Own: true}}
}

// withServers adds a caller's own servers to those that every session has; of
// two with one name the caller's counts.
func withServers(ours, theirs map[string]bridge.MCPServer) map[string]bridge.MCPServer {
	if len(ours) == 0 {
		return theirs
	}
	out := maps.Clone(ours)
	maps.Copy(out, theirs)
	return out
}

// memoryTools are the tools of that server, as sessions call them. A server of
// the same name that a caller has brought along is none of ours, and a work
// order has only what it names itself.
func (b *Bridge) memoryTools(g Guarding) []string {
	if g.Door == "abp" || slices.Contains(g.Servers, memoryName) || !b.remembers() {
		return nil
	}
	var out []string
	for _, name := range []string{mcp.ToolMemorySearch, mcp.ToolMemoryRead, mcp.ToolUserPrefs} {
		out = append(out, memoryName+"-"+name)
	}
	return out
}

// MemoryMCP serves OpenClaw's memory.
func MemoryMCP(ctx context.Context, o Options, serving MCPServing) (*MCP, error) {
	b := prepareMCP(o)
	g, err := b.Gate(Guarding{Workspace: serving.Workspace, Door: "mcp", Caller: "A client of the MCP server", Asker: approval.Nobody{}, Defaults: policy.DefaultsServe()})
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	memory := OpenClaw(o)
	server := mcp.NewMemory(memory, g, mcp.Options{Version: o.Version, Logger: o.Logger, Enter: b.enter})
	return &MCP{bridge: b, serving: serving, name: "openclaw", server: server,
		close: func(context.Context) error { memory.Close(); return nil }}, nil
}
