package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// mcpOptions are the flags of the MCP servers.
type mcpOptions struct {
	http, workspace string
	readWrite       bool
	plugin          bool // it is the server of OpenClaw's plugin
}

func (p *program) mcpCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "mcp",
		Short: "Run an MCP server, or choose those of Copilot's sessions",
		Long: `Serve tools over the Model Context Protocol: Copilot's, for agents such as OpenClaw's
(mcp copilot), or OpenClaw's memory, for Copilot (mcp openclaw). These servers use standard
input and output, or HTTP with --http.

add, list, remove and import choose the MCP servers that Copilot's own sessions get.`,
		Example: `  copilot-bridge mcp copilot --workspace ~/src/app
  copilot-bridge mcp openclaw
  copilot-bridge mcp copilot --http 127.0.0.1:8799
  copilot-bridge mcp add docs https://example.com/mcp`,
	}, p.mcpCopilotCommand(), p.mcpOpenClawCommand(), p.mcpPluginCommand(), p.mcpAddCommand(), p.mcpListCommand(), p.mcpRemoveCommand(), p.mcpImportCommand())
}

func (p *program) mcpCopilotCommand() *cobra.Command {
	cmd, o := p.mcpServer(&cobra.Command{
		Use:   "copilot",
		Short: "Let agents delegate coding tasks to Copilot",
		Long: `Serve copilot_read_file, copilot_create_file, copilot_list_files, copilot_code_task and
copilot_orchestrate. Copilot starts with the first task. Tasks in one directory run one
after another.

The policy applies: reading and writing in the workspace is allowed; commands and the
network need consent, which the client is asked for if it can (elicitation).

Over HTTP the workspace is read-only unless --read-write is given. Addresses other than
this machine's need a token, and so does consent by clients: prefer COPILOT_BRIDGE_TOKEN to
--token, which other users can see. Port 0 picks a free port and remembers it. On
shutdown, running calls have serve.drain_timeout (30s) to finish.`,
		Example: `  copilot-bridge mcp copilot
  copilot-bridge mcp copilot --workspace ~/src/app --http 8799 --read-write
  openclaw mcp set copilot '{"command":"copilot-bridge","args":["mcp","copilot"]}'`,
	}, app.CopilotMCP)
	f := flagsOf(cmd)
	p.modelFlag(f, "`MODEL` to use for tasks that name none")
	f.BoolVar(&o.readWrite, "read-write", false, "with --http: let clients write in the workspace")
	f.demo()
	return cmd
}

func (p *program) mcpOpenClawCommand() *cobra.Command {
	cmd, _ := p.mcpServer(&cobra.Command{
		Use:   "openclaw",
		Short: "Let agents read OpenClaw's memory",
		Long: `Serve the read-only tools openclaw_memory_search, openclaw_memory_read and
openclaw_user_prefs. They ask OpenClaw's gateway if it runs (OPENCLAW_HOST, OPENCLAW_PORT,
OPENCLAW_GATEWAY_TOKEN), and read its files otherwise. Secrets are redacted.

Copilot's agent sessions have these tools if OpenClaw is found, unless
COPILOT_BRIDGE_OPENCLAW_MEMORY is off.`,
		Example: `  copilot-bridge mcp openclaw
  copilot-bridge mcp openclaw --http 127.0.0.1:8798`,
	}, app.MemoryMCP)
	return cmd
}

// mcpPluginCommand is what OpenClaw's plugin starts; nothing else needs it.
func (p *program) mcpPluginCommand() *cobra.Command {
	o := &mcpOptions{plugin: true}
	tools := false
	cmd := p.command(&cobra.Command{
		Use:    "plugin",
		Hidden: true,
		Short:  "Serve OpenClaw's plugin",
		Long: `Serve the tools of OpenClaw's plugin copilot-bridge, which starts this command and
passes calls on to it. Without --workspace the work is done in the workspace of
OpenClaw's agent. --tools prints the tools as the plugin registers them.`,
		Example: `  copilot-bridge mcp plugin --workspace ~/src/app
  copilot-bridge mcp plugin --tools`,
	}, func(ctx context.Context, c call) error {
		if tools {
			list, err := app.PluginTools()
			return errors.Join(err, p.print(string(list)))
		}
		return p.mcp(ctx, c, o, app.PluginMCP)
	})
	f := flagsOf(cmd)
	f.dir(&o.workspace, "workspace", "w", "`DIR` to work in, and whose policy counts (default: OpenClaw's)")
	f.demo()
	f.BoolVar(&tools, "tools", false, "print the tools and end")
	return cmd
}

// openMCP opens one of the servers.
type openMCP func(context.Context, app.Options, app.MCPServing) (*app.MCP, error)

// mcpServer completes the command of a server, with the flags of all of them.
func (p *program) mcpServer(cmd *cobra.Command, open openMCP) (*cobra.Command, *mcpOptions) {
	o := &mcpOptions{}
	f := flagsOf(p.command(cmd, func(ctx context.Context, c call) error { return p.mcp(ctx, c, o, open) }))
	f.text(&o.http, "http", "`ADDR` to listen on instead of standard input: HOST:PORT or PORT")
	f.setting("serve.token", "token", "`TOKEN` that clients over HTTP must present")
	f.dir(&o.workspace, "workspace", "w", "`DIR` to work in, and whose policy counts (default: the current directory)")
	f.json("with --http: write a line of JSON when ready")
	return cmd, o
}

func (p *program) mcp(ctx context.Context, c call, o *mcpOptions, open openMCP) error {
	if o.http == "" && (p.json || o.readWrite || c.cmd.Flags().Changed("token")) {
		return usage(c.cmd, "--json, --read-write and --token are for --http")
	}
	cfg := c.cfg
	dir, err := "", p.requireExecutable()
	if err == nil && (o.workspace != "" || !o.plugin) { // app knows the plugin's default
		dir, err = p.directory(o.workspace, "--workspace")
	}
	if err == nil && o.http != "" { // on standard streams the only client wants the end
		cfg, err = p.prepareServer(ctx, c)
	}
	if err != nil {
		return err
	}
	opts := p.options(cfg)
	opts.Workspace = dir
	opts.DemoIfNone = false // an agent would take its answers for Copilot's
	opts.Progress = func(s copilotruntime.Step) { p.log.Info("runtime.installing", "step", s) }
	server, err := open(ctx, opts, app.MCPServing{Workspace: dir, HTTP: o.http, ReadWrite: o.readWrite})
	if err != nil {
		return err
	}
	if o.http == "" {
		return server.Stdio(ctx, p.env.Stdin, p.out)
	}
	return server.HTTP(ctx, func(url string) {
		if !p.json {
			p.console.Ready(url)
			return
		}
		p.ready(readyLine{URL: url, Token: cfg.Serve.Token != ""})
	})
}
