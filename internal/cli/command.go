package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// call is one use of a command.
type call struct {
	cmd  *cobra.Command
	args []string
	cfg  *config.Config
	in   *interruption
}

// action is what a command does. Its context ends with the first signal.
type action func(ctx context.Context, c call) error

// command completes a command that needs the configuration. It accepts no
// arguments unless it says so itself.
func (p *program) command(cmd *cobra.Command, run action) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.configured(cmd, args, run) }
	return complete(cmd)
}

// configured reads the configuration and does what a command does.
func (p *program) configured(cmd *cobra.Command, args []string, run action) error {
	cfg, err := p.load(cmd)
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	return run(ctx, call{cmd, args, cfg, in})
}

// complete adds what every command has.
func complete(cmd *cobra.Command) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = takes(cobra.NoArgs, "no arguments")
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	return cmd
}

// group completes a command that only has sub-commands.
func group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.Args = noCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subs...)
	return cmd
}

// usage makes an error of the user's, with where to read on.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf(format, args...), Remedy: fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
}

// takes is one of cobra's checks of arguments, with our error.
func takes(check cobra.PositionalArgs, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		return usage(cmd, "`%s` accepts %s; got %s", cmd.CommandPath(), what, plural(len(args), "argument"))
	}
}

// noCommand refuses arguments of a command that has only sub-commands.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := bridge.AsError(usage(cmd, "there is no command %q", cmd.CommandPath()+" "+args[0]))
	cmd.SuggestionsMinimumDistance = max(2, cmd.SuggestionsMinimumDistance)
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err.Remedy = fmt.Sprintf("did you mean `%s %s`?", cmd.CommandPath(), strings.Join(near, "`, `"+cmd.CommandPath()+" "))
	}
	return err
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
	out := bridge.AsError(usage(cmd, "%s", err))
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		why := invalid.Unwrap()
		switch invalid.GetFlag().Value.Type() { // which the standard library explains to programmers
		case "int":
			why = errors.New("must be a whole number")
		case "duration":
			why = errors.New("must be a duration such as 90s, 5m or 1h30m")
		}
		out.Message = fmt.Sprintf("--%s=%q: %v", invalid.GetFlag().Name, invalid.GetValue(), why)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return out
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := text.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		out.Remedy = fmt.Sprintf("did you mean --%s?", near)
	}
	return out
}

// flagSet defines flags together with their completion.
type flagSet struct {
	*pflag.FlagSet
	cmd *cobra.Command
}

func flagsOf(cmd *cobra.Command) flagSet { return flagSet{cmd.Flags(), cmd} }

// must reports a mistake in the commands themselves, which every test finds.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (f flagSet) complete(name string, how cobra.CompletionFunc) {
	must(f.cmd.RegisterFlagCompletionFunc(name, how))
}

func fixedCompletions(values []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// text is a flag whose values cannot be listed.
func (f flagSet) text(to *string, name, about string) {
	f.StringVar(to, name, "", about)
	f.complete(name, cobra.NoFileCompletions)
}

// dir is a flag that names a directory.
func (f flagSet) dir(to *string, name, short, about string) {
	f.StringVarP(to, name, short, "", about)
	must(f.cmd.MarkFlagDirname(name))
}

// choice is a flag with a fixed list of values.
func (f flagSet) choice(to *string, name, fallback, about string, values ...string) {
	*to = fallback
	f.Var(&choice{to, values}, name, about+": "+strings.Join(values, ", "))
	f.complete(name, fixedCompletions(values))
}

// choice is the pflag.Value of such a flag.
type choice struct {
	to     *string
	values []string
}

func (c *choice) String() string {
	if c.to == nil {
		return ""
	}
	return *c.to
}

func (*choice) Type() string { return "string" }

func (c *choice) Set(value string) error {
	if !slices.Contains(c.values, value) {
		return fmt.Errorf("must be one of %s", strings.Join(c.values, ", "))
	}
	*c.to = value
	return nil
}

// settingFlag marks flags that are settings with the setting's key.
const settingFlag = "setting"

// setting is a flag that is a setting of the configuration, which load reads.
func (f flagSet) setting(key, name, about string) {
	how := cobra.NoFileCompletions
	if values := settingValues(key); len(values) > 0 {
		how, about = fixedCompletions(values), about+": "+strings.Join(values, ", ")
	}
	f.completed(key, name, "", about, how)
}

// completed is like setting, but the caller says how values are completed.
func (f flagSet) completed(key, name, short, about string, how cobra.CompletionFunc) {
	f.StringP(name, short, "", about)
	f.complete(name, how)
	must(f.SetAnnotation(name, settingFlag, []string{key}))
}

// settingValues lists the values of a setting that has a fixed choice.
func settingValues(key string) []string {
	keys := config.Keys()
	if i := slices.IndexFunc(keys, func(k config.Key) bool { return k.Key == key }); i >= 0 {
		return keys[i].Values
	}
	return nil
}

// json, yes and demo are flags of many commands; root reads the first and the
// last.
func (f flagSet) json(about string) { f.Bool("json", false, about) }

func (f flagSet) yes(to *bool, about string) { f.BoolVarP(to, "yes", "y", false, about) }

func (f flagSet) demo() {
	f.Bool("demo", false, "use the built-in demo model")
	must(f.SetAnnotation("demo", settingFlag, []string{"demo"}))
}

// confirm asks before something is deleted. Nothing happens without an answer.
func (p *program) confirm(ctx context.Context, c call, flag, question, otherwise string) error {
	k := p.keyboard()
	if k == nil {
		return usage(c.cmd, "%s needs --yes where nobody can be asked", flag)
	}
	defer k.Close()
	yes, err := k.Confirm(ctx, question)
	if err != nil || yes {
		return err
	}
	return &bridge.Error{Code: bridge.CodeDenied, Message: otherwise}
}

func plural(n int, one string) string { return text.Plural(n, one) }
