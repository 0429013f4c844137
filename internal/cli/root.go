package cli

import (
	"bytes"
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// root builds the tree of commands.
func (p *program) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "copilot-bridge",
		Short: "GitHub Copilot's agent runtime behind the protocols that your tools speak",
		Long: "copilot-bridge puts GitHub Copilot's agent runtime behind the protocols that your tools speak.\n\n" +
			"Without a login or your own provider, a built-in demo model answers, so that you can\ntry everything right away. Without a command, on a terminal, it is a conversation: see chat.\n\n" + exitHelp,
		Example: `  copilot-bridge
  copilot-bridge run create hello.txt saying hi
  copilot-bridge serve
  copilot-bridge validate
  copilot-bridge sessions list`,
		Version:       buildVersion(),
		SilenceErrors: true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			p.json, _ = cmd.Flags().GetBool("json") // of those that have the flag
			_, p.called, _ = strings.Cut(cmd.CommandPath(), " ")
		},
		SilenceUsage: true,
	},
		p.chatCommand(), p.runCommand(), p.orchestrateCommand(), p.fleetCommand(), p.workerCommand(), p.serveCommand(), p.dashboardCommand(), p.launchCommand(), p.psCommand(), p.stopCommand(), p.logsCommand(),
		p.serviceCommand(), p.mcpCommand(), p.abpCommand(), p.acpCommand(), p.rpcCommand(), p.registerCommand(), p.unregisterCommand(), p.validateCommand(),
		p.setupCommand(), p.loginCommand(), p.logoutCommand(), p.statusCommand(), p.modelsCommand(), p.usageCommand(), p.topCommand(), p.sessionsCommand(), p.cleanCommand(),
		p.configCommand(), p.auditCommand(), p.policyCommand(), p.trustCommand(), p.capabilitiesCommand(), p.upgradeCommand(), p.uninstallCommand(), p.versionCommand())
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if p.hasKeyboard() && p.env.IsTerminal(p.env.Stdout) {
			return p.runChat(cmd, &runOptions{})
		}
		return help(cmd, args)
	}
	flagSet{root.PersistentFlags(), root}.setting("log_level", "log-level", "`LEVEL` of logging on standard error")
	root.SetFlagErrorFunc(p.flagError)
	root.SetArgs(p.env.Args[min(1, len(p.env.Args)):])
	root.SetIn(p.env.Stdin)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.SetHelpCommand(helpCommand())
	if p.console.OutTTY {
		p.wrapHelp(root)
	}
	addCompletion(root)
	return root
}

// wrapHelp fits the help to the terminal.
func (p *program) wrapHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		cmd.Long = view.Reflow(cmd.Long)
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(nil)
		_ = p.print(text.String()) // a failure is noticed by the stream
	})
}

// helpCommand is cobra's, but fails for a command that does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		Example: `  copilot-bridge help
  copilot-bridge help sessions list`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noCommand(about, rest)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if about, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, c := range about.Commands() {
					if c.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// completions offers the values of what is stored. Nothing is started for it,
// and an error gives none.
func (p *program) completions(list func(context.Context, *config.Config) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var values []cobra.Completion
		cfg, err := p.loadQuietly(nil)
		if err == nil {
			values, err = list(cmd.Context(), cfg)
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeSessions offers the ids of stored sessions, with their titles.
func (p *program) completeSessions(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completions(func(ctx context.Context, cfg *config.Config) (out []cobra.Completion, err error) {
		entries, err := app.Store(cfg).List(ctx)
		for _, e := range entries {
			out = append(out, cobra.CompletionWithDesc(e.ID, approval.Visible(e.Title)))
		}
		return out, err
	})(cmd, args, typed)
}

// load is loadQuietly, and warns once of what a .env file could not decide and of
// variables that are misspelt.
func (p *program) load(cmd *cobra.Command) (*config.Config, error) {
	cfg, err := p.loadQuietly(cmd)
	if err != nil || p.warned {
		return cfg, err
	}
	p.warned = true
	for line := range strings.Lines(cfg.DotEnvWarning()) {
		p.console.Alert(strings.TrimSuffix(line, "\n"))
	}
	for _, warning := range cfg.UnknownVariables() {
		p.console.Alert(warning)
	}
	return cfg, nil
}

// loadQuietly reads the configuration, with the flags of cmd that are settings,
// and sets up what depends on it: scrubbing and logging. cmd may be nil.
func (p *program) loadQuietly(cmd *cobra.Command) (*config.Config, error) {
	cfg, err := config.Load(p.loadOptions(cmd))
	if err != nil {
		return nil, err
	}
	p.scrub.Learn(cfg.Secrets())
	level, enabled := cfg.LogLevel.Slog()
	if cfg.Origin("log_level").Source == config.SourceDefault {
		level = max(level, p.defaultLevel)
	}
	if enabled {
		p.log = view.NewLog(p.console, level)
	}
	return cfg, nil
}

// loadOptions is where the configuration comes from.
func (p *program) loadOptions(cmd *cobra.Command) config.Options {
	o := config.Options{Flags: map[string]string{}, FlagNames: map[string]string{}, Environ: p.env.Environ, Dir: p.env.Dir, HomeDir: p.env.HomeDir,
		Trusted: func(home, file string, data []byte) (bool, error) { return app.TrustIn(home).Trusted(file, data) }}
	if cmd != nil {
		cmd.Flags().Visit(func(f *pflag.Flag) {
			for _, key := range f.Annotations[settingFlag] {
				o.Flags[key], o.FlagNames[key] = f.Value.String(), "--"+f.Name
			}
		})
	}
	return o
}
