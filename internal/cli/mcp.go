package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// mcpOptions are the flags of the MCP servers.
type mcpOptions struct {
	http, token, workspace, model string
	readWrite, demo, json         bool
	plugin                        bool // it is the server of OpenClaw's plugin
}

func (p *program) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve tools to clients of the Model Context Protocol",
		Long: `Serve tools to clients of the Model Context Protocol: Copilot's, so that an agent such
as OpenClaw's can delegate coding tasks to it, or OpenClaw's memory, so that Copilot
knows what the user's assistant knows.

Both speak on standard input and output until the client hangs up, or over HTTP with
--http. Nothing but the protocol goes to standard output then.

` + exitHelp,
		Example: `  copilot-bridge mcp copilot --workspace ~/src/app
  copilot-bridge mcp openclaw
  copilot-bridge mcp copilot --http 127.0.0.1:8799`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.mcpCopilotCommand(), p.mcpOpenClawCommand(), p.mcpPluginCommand())
	return cmd
}

func (p *program) mcpCopilotCommand() *cobra.Command {
	o := &mcpOptions{}
	cmd := &cobra.Command{
		Use:   "copilot",
		Short: "Let an agent delegate coding tasks to Copilot",
		Long: `Serve the tools copilot_read_file, copilot_create_file, copilot_list_files,
copilot_code_task and copilot_orchestrate. The first task starts Copilot; to list the tools does not.

Everything is done in the workspace, under the policy: reading and writing there is
allowed, commands and the network need consent, for which the client is asked if it can
(elicitation), else they are denied. Tasks in one directory run one after another.

Over HTTP the workspace is read-only unless --read-write is given, only this machine is
listened to unless a token is set, and clients may consent only if there is one: set
COPILOT_BRIDGE_TOKEN rather than --token, which other users may see. Port 0 picks a free
one and remembers it.

` + exitHelp,
		Example: `  copilot-bridge mcp copilot
  copilot-bridge mcp copilot --workspace ~/src/app --http 8799 --read-write
  openclaw mcp set copilot '{"command":"copilot-bridge","args":["mcp","copilot"]}'`,
		Args:              takes(cobra.NoArgs, "no arguments"),
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.runMCP(cmd, o, app.CopilotMCP) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.mcpFlags(cmd, o)
	f := cmd.Flags()
	f.StringVarP(&o.model, "model", "m", "", "`MODEL` to use for tasks that name none")
	f.BoolVar(&o.readWrite, "read-write", false, "with --http: let clients write in the workspace")
	f.BoolVar(&o.demo, "demo", false, "let the built-in rehearsal model answer")
	p.must(cmd.RegisterFlagCompletionFunc("model", cobra.NoFileCompletions))
	return cmd
}

func (p *program) mcpOpenClawCommand() *cobra.Command {
	o := &mcpOptions{}
	cmd := &cobra.Command{
		Use:   "openclaw",
		Short: "Let Copilot, or another agent, read OpenClaw's memory",
		Long: `Serve the tools openclaw_memory_search, openclaw_memory_read and openclaw_user_prefs,
all read-only. OpenClaw's gateway is asked where it runs (OPENCLAW_HOST, OPENCLAW_PORT,
OPENCLAW_GATEWAY_TOKEN), else its files are read. Secrets in them are hidden.

Copilot's agent sessions get these tools by themselves where OpenClaw is found;
COPILOT_BRIDGE_OPENCLAW_MEMORY=off switches that off.

` + exitHelp,
		Example: `  copilot-bridge mcp openclaw
  copilot-bridge mcp openclaw --http 127.0.0.1:8798`,
		Args:              takes(cobra.NoArgs, "no arguments"),
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.runMCP(cmd, o, app.MemoryMCP) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.mcpFlags(cmd, o)
	return cmd
}

// mcpPluginCommand is what OpenClaw's plugin starts; nobody else needs it.
func (p *program) mcpPluginCommand() *cobra.Command {
	o := &mcpOptions{plugin: true}
	tools := false
	cmd := &cobra.Command{
		Use:    "plugin",
		Hidden: true,
		Short:  "Serve OpenClaw's plugin",
		Long: `Serve the tools of OpenClaw's plugin copilot-bridge, which starts this command by itself
and hands calls on to it. Without --workspace the work is done in the workspace of
OpenClaw's agent. --tools prints the tools as the plugin registers them.

` + exitHelp,
		Example: `  copilot-bridge mcp plugin --workspace ~/src/app
  copilot-bridge mcp plugin --tools`,
		Args: takes(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tools {
				list, err := app.PluginTools()
				return errors.Join(err, p.print(string(list)))
			}
			return p.runMCP(cmd, o, app.PluginMCP)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVarP(&o.workspace, "workspace", "w", "", "`DIR` to work in, and whose policy counts (default: OpenClaw's)")
	f.BoolVar(&o.demo, "demo", false, "let the built-in rehearsal model answer")
	f.BoolVar(&tools, "tools", false, "print the tools and end")
	p.must(cmd.MarkFlagDirname("workspace"))
	return cmd
}

// mcpFlags are those that both servers have.
func (p *program) mcpFlags(cmd *cobra.Command, o *mcpOptions) {
	f := cmd.Flags()
	f.StringVar(&o.http, "http", "", "`ADDR` to listen on instead of standard input: HOST:PORT or PORT")
	f.StringVar(&o.token, "token", "", "`TOKEN` that clients over HTTP have to show")
	f.StringVarP(&o.workspace, "workspace", "w", "", "`DIR` to work in, and whose policy counts (default: the present one)")
	f.BoolVar(&o.json, "json", false, "with --http: write a line of JSON when ready")
	p.must(cmd.RegisterFlagCompletionFunc("http", cobra.NoFileCompletions))
	p.must(cmd.RegisterFlagCompletionFunc("token", cobra.NoFileCompletions))
	p.must(cmd.MarkFlagDirname("workspace"))
}

func (p *program) runMCP(cmd *cobra.Command, o *mcpOptions, open func(context.Context, app.Options, app.MCPServing) (*app.MCP, error)) error {
	if o.http == "" && (o.json || o.readWrite || o.token != "") {
		return usage(cmd, "--json, --read-write and --token are for --http")
	}
	flags := map[string]string{}
	for key, value := range map[string]string{"serve.token": o.token, "model": o.model} {
		if value != "" {
			flags[key] = value
		}
	}
	cfg, err := p.load(flags)
	if err != nil {
		return err
	}
	if o.http != "" {
		if cfg, err = p.withToken(cmd.Context(), cfg); err != nil {
			return err
		}
	}
	dir := ""
	if o.workspace != "" || !o.plugin { // the plugin's has a default of its own
		if dir, err = p.directory(o.workspace); err != nil {
			return err
		}
	}
	if p.env.Executable == "" {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the path of this program is not known", Remedy: "call it by its full path"}
	}
	ctx, interrupted := p.interruptible(cmd.Context())
	defer interrupted.stop()
	opts := p.appOptions(cfg, o.demo)
	opts.Progress = func(s copilotruntime.Step) { p.log.Info("installing the runtime", "step", s) }
	server, err := open(ctx, opts, app.MCPServing{Workspace: dir, HTTP: o.http, ReadWrite: o.readWrite})
	if err != nil {
		return err
	}
	if o.http == "" {
		return server.Stdio(ctx, p.env.Stdin, p.out)
	}
	return server.HTTP(ctx, func(url string) { p.listening(o, url, cfg.Serve.Token != "") })
}

// listening tells that an MCP server answers over HTTP.
func (p *program) listening(o *mcpOptions, url string, token bool) {
	if !o.json {
		p.console.line("copilot-bridge is ready: " + p.console.style.bold(url))
		return
	}
	line, err := json.Marshal(struct {
		URL   string `json:"url"`
		Token bool   `json:"token"`
		PID   int    `json:"pid"`
	}{url, token, os.Getpid()})
	if err == nil {
		_, err = p.out.Write(append(line, '\n'))
	}
	if err != nil {
		p.log.Warn("the ready line was not written", "error", err)
	}
}

// appOptions are what app needs to know of this program.
func (p *program) appOptions(cfg *config.Config, demo bool) app.Options {
	return app.Options{Config: cfg, Self: p.env.Executable, Version: buildVersion(), Environ: p.env.Environ,
		UserDir: p.env.HomeDir, Logger: p.log, Demo: demo}
}
