package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// root builds the tree of commands.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "copilot-bridge",
		Short: "GitHub Copilot's agent runtime behind the protocols that your tools speak",
		Long: "copilot-bridge puts GitHub Copilot's agent runtime behind the protocols that your tools speak.\n\n" +
			"Without a login or a provider of your own, a built-in rehearsal model answers, so that\neverything can be tried at once.\n\n" + exitHelp,
		Example: `  copilot-bridge run "create hello.txt saying hi"
  copilot-bridge serve
  copilot-bridge validate
  copilot-bridge sessions list`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&p.logLevel, "log-level", "",
		"`HOW` much to log on standard error: "+strings.Join(settingValues("log_level"), ", "))
	p.must(root.RegisterFlagCompletionFunc("log-level", fixedCompletions(settingValues("log_level"))))
	root.SetFlagErrorFunc(p.flagError)
	root.SetArgs(p.env.Args[min(1, len(p.env.Args)):])
	root.SetIn(p.env.Stdin)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.AddCommand(p.runCommand(), p.orchestrateCommand(), p.serveCommand(), p.mcpCommand(), p.abpCommand(), p.acpCommand(), p.rpcCommand(), p.registerCommand(), p.unregisterCommand(), p.validateCommand(), p.setupCommand(), p.sessionsCommand(), p.configCommand(), p.auditCommand(), p.trustCommand(), p.capabilitiesCommand(), p.versionCommand())
	root.SetHelpCommand(helpCommand())
	strictCompletion(root)
	return root
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

// strictCompletion makes cobra's completion command refuse other shells.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = noCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			c.Example = "  source <(copilot-bridge completion bash)\n  copilot-bridge completion fish > ~/.config/fish/completions/copilot-bridge.fish"
		}
	}
}

// must reports a mistake in the commands themselves, which every test finds.
func (p *program) must(err error) {
	if err != nil {
		panic(err)
	}
}

// usage makes an error of the user's, with where to read on.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf(format, args...),
		Remedy: fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
}

// noCommand refuses arguments of a command that has only sub-commands.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there is no command %q", cmd.CommandPath()+" "+args[0]),
		Remedy: fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err.Remedy = fmt.Sprintf("did you mean `%s %s`?", cmd.CommandPath(), strings.Join(near, "`, `"+cmd.CommandPath()+" "))
	}
	return err
}

// exactArgs and the like are cobra's, with our error.
func takes(check cobra.PositionalArgs, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		return usage(cmd, "`%s` takes %s, not %s", cmd.CommandPath(), what, plural(len(args), "argument"))
	}
}

// flagError explains a flag that cannot be parsed.
func (p *program) flagError(cmd *cobra.Command, err error) error {
	if !cmd.HasParent() {
		// A flag of a command that does not exist: the command is the mistake.
		for _, a := range p.env.Args[1:] {
			if !strings.HasPrefix(a, "-") {
				return noCommand(cmd, []string{a})
			}
		}
	}
	out := &bridge.Error{Code: bridge.CodeInvalid, Message: err.Error(), Remedy: fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return out
	}
	name := unknown.GetSpecifiedName()
	best, distance := "", 3
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := editDistance(name, f.Name); d < distance && !f.Hidden {
			best, distance = f.Name, d
		}
	})
	if best != "" {
		out.Remedy = fmt.Sprintf("did you mean --%s?", best)
	}
	return out
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// flagOf says which flag gives a setting.
var flagOf = map[string]string{
	"log_level": "--log-level", "model": "--model", "reasoning_effort": "--reasoning-effort", "engine.total_timeout": "--timeout",
	"serve.addr": "--addr", "serve.port": "--port", "serve.token": "--token",
}

// load is loadQuietly, and tells what a .env file could not decide.
func (p *program) load(flags map[string]string) (*config.Config, error) {
	cfg, err := p.loadQuietly(flags)
	if err != nil || p.warned {
		return cfg, err
	}
	p.warned = true
	for line := range strings.Lines(cfg.DotEnvWarning()) {
		p.console.line(p.console.style.loud("! " + approval.Visible(strings.TrimSuffix(line, "\n"))))
	}
	return cfg, nil
}

// loadQuietly reads the configuration, with the flags that were given by
// setting key, and sets up what depends on it: scrubbing and logging.
func (p *program) loadQuietly(flags map[string]string) (*config.Config, error) {
	all := map[string]string{}
	for k, v := range flags {
		all[k] = v
	}
	if p.logLevel != "" {
		all["log_level"] = p.logLevel
	}
	cfg, err := config.Load(config.Options{Flags: all, Environ: p.env.Environ, Dir: p.env.Dir, HomeDir: p.env.HomeDir,
		Trusted: func(home, file string, data []byte) (bool, error) { return app.TrustIn(home).Trusted(file, data) }})
	if err != nil {
		return nil, nameFlags(err)
	}
	p.scrub.learn(cfg.Secrets())
	level, enabled := cfg.LogLevel.Slog()
	if cfg.Origin("log_level").Source == config.SourceDefault {
		level = max(level, slog.LevelWarn) // people did not ask for more
	}
	if enabled {
		p.log = slog.New(slog.NewTextHandler(p.console, &slog.HandlerOptions{Level: level}))
	}
	return cfg, nil
}

// nameFlags calls settings by their flags where the flag was wrong.
func nameFlags(err error) error {
	e := *bridge.AsError(err)
	lines := strings.Split(e.Message, "\n")
	for i, l := range lines {
		for key, flag := range flagOf {
			if rest, ok := strings.CutPrefix(l, key+"="); ok && strings.Contains(l, "(from flag)") {
				lines[i] = flag + "=" + strings.Replace(rest, " (from flag)", "", 1)
			}
		}
	}
	e.Message = strings.Join(lines, "\n")
	return &e
}

// settingValues lists the values of a setting that has a fixed choice.
func settingValues(key string) []string {
	keys := config.Keys()
	if i := slices.IndexFunc(keys, func(k config.Key) bool { return k.Key == key }); i >= 0 {
		return keys[i].Values
	}
	return nil
}
