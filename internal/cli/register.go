package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/registration"
)

// registerOptions are the flags of register and unregister.
type registerOptions struct {
	workspace, method, secrets   string
	persona, force, dryRun, json bool
}

func (p *program) registerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Make this program known to another one",
		Long: `Make this program known to another one, so that its agent can delegate coding tasks to
Copilot. What is registered already stays as it is; --dry-run shows what would change.
copilot-bridge unregister takes it back. See docs/openclaw.md and docs/vscode.md.`,
		Example: `  copilot-bridge register openclaw --persona
  copilot-bridge register openclaw-mcp --workspace ~/src/app
  copilot-bridge register vscode --vsix copilot-bridge-linux-x64.vsix
  copilot-bridge register openclaw --dry-run`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.registerPluginCommand(), p.registerServerCommand(), p.registerVSCodeCommand())
	return cmd
}

func (p *program) unregisterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unregister",
		Short: "Take back what register has done",
		Long: `Take back what register has done, and nothing else: the other program's configuration
becomes what it was, apart from what that program has written itself since.`,
		Example: `  copilot-bridge unregister openclaw
  copilot-bridge unregister openclaw-mcp --dry-run`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, c := range []struct {
		target  registration.Target
		short   string
		example string
	}{
		{registration.Plugin, "Take the plugin out of OpenClaw", "  copilot-bridge unregister openclaw\n  copilot-bridge unregister openclaw --dry-run"},
		{registration.Server, "Take the MCP server out of OpenClaw", "  copilot-bridge unregister openclaw-mcp\n  copilot-bridge unregister openclaw-mcp --json"},
	} {
		o := &registerOptions{}
		sub := &cobra.Command{
			Use: string(c.target), Short: c.short, Example: c.example,
			Long:              c.short + ", with the persona if there is one. The configuration becomes what it was.",
			Args:              takes(cobra.NoArgs, "no arguments"),
			RunE:              func(cmd *cobra.Command, _ []string) error { return p.runUnregister(cmd, o, c.target) },
			ValidArgsFunction: cobra.NoFileCompletions,
		}
		p.registrationFlags(sub, o)
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(p.unregisterVSCodeCommand())
	return cmd
}

func (p *program) registerPluginCommand() *cobra.Command {
	o := &registerOptions{}
	cmd := &cobra.Command{
		Use:   string(registration.Plugin),
		Short: "Give OpenClaw's agent Copilot as tools, through a plugin",
		Long: `Give OpenClaw's agent the tools copilot_code, copilot_code_verbose and
copilot_orchestrate. The plugin that this program carries is written to its home and
installed with OpenClaw's own command, if openclaw is on the PATH; else OpenClaw's
configuration is edited in place. Comments in it are kept: where there are some it is
edited, since the command would remove them. A back-up is kept.

The plugin starts this very program, and works in --workspace; without it, in the
workspace of OpenClaw's agent.

` + exitHelp,
		Example: `  copilot-bridge register openclaw
  copilot-bridge register openclaw --workspace ~/src/app --persona
  copilot-bridge register openclaw --dry-run`,
		Args:              takes(cobra.NoArgs, "no arguments"),
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.runRegister(cmd, o, registration.Plugin) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.registrationFlags(cmd, o)
	p.registerFlags(cmd, o, "`DIR` to work in, and whose policy counts (default: the workspace of OpenClaw's agent)")
	return cmd
}

func (p *program) registerServerCommand() *cobra.Command {
	o := &registerOptions{}
	cmd := &cobra.Command{
		Use:   string(registration.Server),
		Short: "Give OpenClaw's agent Copilot as an MCP server",
		Long: `Give OpenClaw's agent the tools of copilot-bridge mcp copilot, as mcp.servers.copilot in
OpenClaw's configuration, with half an hour for each call. That is written by OpenClaw's
own command, if openclaw is on the PATH and the file has no comments; else it is edited
in place. A back-up is kept.

OpenClaw starts the server without its own environment, so what this program is
configured by is written along: variables such as COPILOT_BRIDGE_HOME. Secrets are left
out, and named; with --secrets=reference OpenClaw takes them from its environment, with
--secrets=copy they are written as they are.

` + exitHelp,
		Example: `  copilot-bridge register openclaw-mcp --workspace ~/src/app
  copilot-bridge register openclaw-mcp --secrets reference
  copilot-bridge register openclaw-mcp --dry-run --json`,
		Args:              takes(cobra.NoArgs, "no arguments"),
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.runRegister(cmd, o, registration.Server) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.registrationFlags(cmd, o)
	p.registerFlags(cmd, o, "`DIR` to work in, and whose policy counts (default: the present one)")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace a server called copilot that is not this program")
	return cmd
}

var (
	methods    = []string{string(registration.Auto), string(registration.Command), string(registration.Edit)}
	secretsTos = []string{string(app.SecretsOmitted), string(app.SecretsReferenced), string(app.SecretsCopied)}
)

// registrationFlags are those that register and unregister have.
func (p *program) registrationFlags(cmd *cobra.Command, o *registerOptions) {
	f := cmd.Flags()
	f.StringVar(&o.method, "method", string(registration.Auto), "`HOW` to change OpenClaw's configuration: "+strings.Join(methods, ", "))
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	f.BoolVar(&o.json, "json", false, "write JSON")
	p.must(cmd.RegisterFlagCompletionFunc("method", fixedCompletions(methods)))
}

// registerFlags are those that only register has.
func (p *program) registerFlags(cmd *cobra.Command, o *registerOptions, workspace string) {
	f := cmd.Flags()
	f.StringVarP(&o.workspace, "workspace", "w", "", workspace)
	f.BoolVar(&o.persona, "persona", false, "tell OpenClaw's agent when to use it, in its workspace's AGENTS.md")
	f.StringVar(&o.secrets, "secrets", string(app.SecretsOmitted), "`WHAT` to do with secrets of the environment: "+strings.Join(secretsTos, ", "))
	p.must(cmd.RegisterFlagCompletionFunc("secrets", fixedCompletions(secretsTos)))
	p.must(cmd.MarkFlagDirname("workspace"))
}

// oneOf refuses a value that is not on a list.
func oneOf(cmd *cobra.Command, flag, value string, values []string) error {
	for _, v := range values {
		if v == value {
			return nil
		}
	}
	return usage(cmd, "--%s=%s: it must be one of %s", flag, value, strings.Join(values, ", "))
}

func (p *program) runRegister(cmd *cobra.Command, o *registerOptions, target registration.Target) error {
	if err := oneOf(cmd, "method", o.method, methods); err != nil {
		return err
	}
	if err := oneOf(cmd, "secrets", o.secrets, secretsTos); err != nil {
		return err
	}
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	dir := ""
	if o.workspace != "" || target == registration.Server {
		if dir, err = p.directory(o.workspace); err != nil {
			return err
		}
	}
	if p.env.Executable == "" {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the path of this program is not known", Remedy: "call it by its full path"}
	}
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	opts := p.appOptions(cfg, false)
	starts := dir // where the bridge will be started
	if target == registration.Plugin {
		starts = p.env.HomeDir
	}
	handed := app.HandOn(opts, p.env.Dir, starts, app.SecretsTo(o.secrets))
	result, err := app.Registrar(opts, p.waiting(o)).Register(ctx, registration.Request{
		Target: target, Method: registration.Method(o.method), Workspace: dir, Env: handed.Env, Secrets: handed.Secrets,
		Persona: o.persona, Force: o.force, DryRun: o.dryRun,
	})
	if err != nil {
		return err
	}
	if n := len(handed.LeftOut); n > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("left out, because secrets do not belong into OpenClaw's configuration: %s. "+
			"Write what the bridge needs of it to %s (see `copilot-bridge config show` for the names), or to OpenClaw's own %s/.env and register with --secrets=reference",
			strings.Join(handed.LeftOut, ", "), shorten(cfg.Path(configFile), "", p.env.HomeDir), shorten(app.OpenClawState(opts), "", p.env.HomeDir)))
	}
	return p.registered(o, result, handed.LeftOut)
}

func (p *program) runUnregister(cmd *cobra.Command, o *registerOptions, target registration.Target) error {
	if err := oneOf(cmd, "method", o.method, methods); err != nil {
		return err
	}
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	result, err := app.Registrar(p.appOptions(cfg, false), p.waiting(o)).Unregister(ctx, registration.Request{
		Target: target, Method: registration.Method(o.method), DryRun: o.dryRun})
	if err != nil {
		return err
	}
	return p.registered(o, result, nil)
}

// waiting tells what takes long.
func (p *program) waiting(o *registerOptions) func(string) {
	return func(line string) {
		if !o.json {
			p.console.line(p.console.style.dim("… " + harmless(line) + " (this may take a minute)"))
		}
	}
}

// registered tells what was done, or would be.
func (p *program) registered(o *registerOptions, r registration.Result, leftOut []string) error {
	if o.json {
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
		writeln(&b, "  "+shorten(c.File, "", p.env.HomeDir)+": "+c.What)
		for _, l := range c.Lines {
			if r.DryRun {
				writeln(&b, "    "+harmless(l))
			}
		}
	}
	for _, c := range r.Commands {
		writeln(&b, "  "+harmless(c))
	}
	if r.Backup != "" {
		writeln(&b, "  the configuration as it was: "+shorten(r.Backup, "", p.env.HomeDir))
	}
	for _, n := range r.Notes {
		writeln(&b, "! "+harmless(n))
	}
	if r.Outcome == registration.Registered && !r.DryRun {
		writeln(&b, "→ a gateway that runs takes it up by itself; `copilot-bridge validate` shows how things stand")
	}
	return p.print(b.String())
}
