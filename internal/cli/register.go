package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/registration"
)

// registerOptions are the flags of register and unregister.
type registerOptions struct {
	workspace, method, secrets string
	persona, force, dryRun     bool
}

func (p *program) registerCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "register",
		Short: "Register this program with coding agents, editors and OpenClaw",
		Long: `Register this program with coding agents, editors and OpenClaw, so that they can use
Copilot. Use --dry-run to see the changes, and copilot-bridge unregister to undo them. See
docs/guides/coding-agents.md, docs/guides/openclaw.md and docs/guides/vscode.md.`,
		Example: `  copilot-bridge register claude-code --dry-run
  copilot-bridge register openclaw --persona
  copilot-bridge register openclaw-mcp --workspace ~/src/app
  copilot-bridge register vscode --vsix copilot-bridge-linux-x64.vsix
  copilot-bridge register openclaw --dry-run`,
	}, append(p.clientCommands("register"), p.registerPluginCommand(), p.registerServerCommand(), p.registerVSCodeCommand())...)
}

func (p *program) unregisterCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "unregister",
		Short: "Undo register",
		Long:  `Undo what register has changed, and nothing else.`,
		Example: `  copilot-bridge unregister openclaw
  copilot-bridge unregister openclaw-mcp --dry-run`,
	}, append(p.clientCommands("unregister"), p.unregisterTargetCommand(registration.Plugin, "Remove the plugin from OpenClaw"),
		p.unregisterTargetCommand(registration.Server, "Remove the MCP server from OpenClaw"), p.unregisterVSCodeCommand())...)
}

func (p *program) unregisterTargetCommand(target registration.Target, short string) *cobra.Command {
	o := &registerOptions{}
	cmd := p.command(&cobra.Command{
		Use: string(target), Short: short,
		Long:    short + ", with the persona if there is one. The configuration becomes what it was.",
		Example: fmt.Sprintf("  copilot-bridge unregister %s\n  copilot-bridge unregister %[1]s --dry-run", target),
	}, func(ctx context.Context, c call) error {
		result, err := app.Registrar(p.options(c.cfg), p.waiting).Unregister(ctx, registration.Request{
			Target: target, Method: registration.Method(o.method), DryRun: o.dryRun})
		if err != nil {
			return err
		}
		return p.registered(result, nil)
	})
	o.commonFlags(flagsOf(cmd))
	return cmd
}

func (p *program) registerPluginCommand() *cobra.Command {
	cmd, _ := p.registerTargetCommand(registration.Plugin, &cobra.Command{
		Short: "Give OpenClaw's agent Copilot as tools, through a plugin",
		Long: `Give OpenClaw's agent the tools copilot_code, copilot_code_verbose and
copilot_orchestrate. The plugin is installed with the openclaw command if it is on the
PATH and the configuration has no comments; otherwise the configuration is edited. A
backup is kept.

The plugin runs this program in --workspace, or in the workspace of OpenClaw's agent.`,
		Example: `  copilot-bridge register openclaw
  copilot-bridge register openclaw --workspace ~/src/app --persona
  copilot-bridge register openclaw --dry-run`,
	}, "the workspace of OpenClaw's agent")
	return cmd
}

func (p *program) registerServerCommand() *cobra.Command {
	cmd, o := p.registerTargetCommand(registration.Server, &cobra.Command{
		Short: "Give OpenClaw's agent Copilot as an MCP server",
		Long: `Add copilot-bridge mcp copilot to OpenClaw's configuration as mcp.servers.copilot. It is
installed with the openclaw command if it is on the PATH and the configuration has no
comments; otherwise the configuration is edited. A backup is kept.

OpenClaw does not pass on its environment, so the variables that configure this program are
written too. Secrets are left out and listed; --secrets=reference lets OpenClaw take them
from its environment, --secrets=copy writes them.`,
		Example: `  copilot-bridge register openclaw-mcp --workspace ~/src/app
  copilot-bridge register openclaw-mcp --secrets reference
  copilot-bridge register openclaw-mcp --dry-run --json`,
	}, "the current directory")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace a server called copilot that is not this program")
	return cmd
}

// registerTargetCommand completes a command that registers with OpenClaw.
func (p *program) registerTargetCommand(target registration.Target, cmd *cobra.Command, workspace string) (*cobra.Command, *registerOptions) {
	o := &registerOptions{}
	cmd.Use = string(target)
	p.command(cmd, func(ctx context.Context, c call) error { return p.register(ctx, c.cfg, o, target) })
	f := flagsOf(cmd)
	o.commonFlags(f)
	f.dir(&o.workspace, "workspace", "w", "`DIR` to work in, and whose policy counts (default: "+workspace+")")
	f.BoolVar(&o.persona, "persona", false, "tell OpenClaw's agent when to use it, in its workspace's AGENTS.md")
	f.choice(&o.secrets, "secrets", string(registration.SecretsOmitted), "`WHAT` to do with secrets of the environment",
		string(registration.SecretsOmitted), string(registration.SecretsReferenced), string(registration.SecretsCopied))
	return cmd, o
}

// commonFlags are those of register and unregister.
func (o *registerOptions) commonFlags(f flagSet) {
	f.choice(&o.method, "method", string(registration.Auto), "`HOW` to change OpenClaw's configuration",
		string(registration.Auto), string(registration.Command), string(registration.Edit))
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	f.json("write JSON")
}

func (p *program) register(ctx context.Context, cfg *config.Config, o *registerOptions, target registration.Target) error {
	dir, err := "", p.requireExecutable()
	if err == nil && (o.workspace != "" || target == registration.Server) {
		dir, err = p.directory(o.workspace, "--workspace")
	}
	if err != nil {
		return err
	}
	opts := p.options(cfg)
	starts := dir // where the bridge will be started
	if target == registration.Plugin {
		starts = p.env.HomeDir
	}
	handed := registration.HandOn(opts.Config, opts.Environ, p.env.Dir, starts, registration.SecretsTo(o.secrets))
	result, err := app.Registrar(opts, p.waiting).Register(ctx, registration.Request{
		Target: target, Method: registration.Method(o.method), Workspace: dir, Env: handed.Env, Secrets: handed.Secrets,
		Persona: o.persona, Force: o.force, DryRun: o.dryRun,
	})
	if err != nil {
		return err
	}
	if len(handed.LeftOut) > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("left out, because secrets do not belong into OpenClaw's configuration: %s. "+
			"Write what the bridge needs of it to %s (see `copilot-bridge config show` for the names), or to OpenClaw's own %s/.env and register with --secrets=reference",
			strings.Join(handed.LeftOut, ", "), p.short(cfg.Path(configFile)), p.short(app.OpenClawState(opts))))
	}
	return p.registered(result, handed.LeftOut)
}

// waiting reports steps that take long.
func (p *program) waiting(line string) {
	if !p.json {
		p.console.Dim("… " + line + " (this may take a minute)")
	}
}

// registered reports the changes, or those that a real run would make.
func (p *program) registered(r registration.Result, leftOut []string) error {
	if p.json {
		return p.printJSON(struct {
			Type string `json:"type"`
			registration.Result
			LeftOut []string `json:"left_out,omitempty"`
		}{"registration", r, leftOut})
	}
	var b strings.Builder
	what := map[registration.Target]string{registration.Plugin: "the plugin", registration.Server: "the MCP server"}[r.Target]
	writeln(&b, map[registration.Outcome]string{
		registration.Registered: "✓ OpenClaw has " + what, registration.Updated: "✓ " + what + " of OpenClaw is up to date",
		registration.Already: "✓ OpenClaw has " + what + " already; nothing was changed", registration.Unregistered: "✓ " + what + " was taken out of OpenClaw",
		registration.Absent: "✓ OpenClaw does not have " + what + "; nothing was changed",
	}[r.Outcome])
	if r.DryRun {
		b.Reset()
		if writeln(&b, "This would be changed, and was not:"); len(r.Changes)+len(r.Commands) == 0 {
			writeln(&b, "  nothing")
		}
	}
	for _, c := range r.Changes {
		writeln(&b, "  "+p.short(c.File)+": "+c.What)
		for _, l := range c.Lines {
			if r.DryRun {
				writeln(&b, "    "+view.Harmless(l))
			}
		}
	}
	for _, c := range r.Commands {
		writeln(&b, "  "+view.Harmless(c))
	}
	if r.Backup != "" {
		writeln(&b, "  the configuration as it was: "+p.short(r.Backup))
	}
	for _, n := range r.Notes {
		writeln(&b, "! "+view.Harmless(n))
	}
	if r.Outcome == registration.Registered && !r.DryRun {
		writeln(&b, "→ a gateway that runs takes it up by itself; `copilot-bridge validate` shows how things stand")
	}
	return p.print(b.String())
}
