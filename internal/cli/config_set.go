package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// fromInput is the value that stands for standard input.
const fromInput = "-"

func (p *program) configSetCommand() *cobra.Command {
	return complete(&cobra.Command{
		Use:   "set KEY VALUE [KEY VALUE]...",
		Short: "Change settings in config.yaml",
		Long: `Change settings in config.yaml. Comments and order stay. Nothing is written unless the
whole configuration is valid afterwards, so set what belongs together in one command.

The value - is read from standard input; a secret has to be. An empty value unsets.
Programs that run already keep the configuration that they started with.`,
		Example: `  copilot-bridge config set serve.port 9000
  copilot-bridge config set byok.provider ollama byok.model qwen3
  pass show openai | copilot-bridge config set byok.provider openai byok.model gpt-5 byok.api_key -
  copilot-bridge config set model ""`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args)%2 != 0 {
				return usage(cmd, "`%s` accepts pairs of a key and a value; got %s", cmd.CommandPath(), plural(len(args), "argument"))
			}
			return nil
		},
		ValidArgsFunction: completeSettings(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, in := p.interruptible(cmd.Context())
			defer in.stop()
			return p.setConfig(ctx, cmd, args)
		},
	})
}

// completeSettings offers keys and, where pairs are given, the values of the
// last one.
func completeSettings(pairs bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		switch {
		case pairs && len(args)%2 == 1:
			out = append(out, settingValues(args[len(args)-1])...)
		case pairs || len(args) == 0:
			for _, k := range config.Keys() {
				if k.InFile || !pairs {
					out = append(out, cobra.CompletionWithDesc(k.Key, k.Description))
				}
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func (p *program) setConfig(ctx context.Context, cmd *cobra.Command, args []string) error {
	secret := map[string]bool{}
	for _, k := range config.Keys() {
		secret[k.Key] = k.Secret
	}
	var changes []config.Change
	read := ""
	for i := 0; i < len(args); i += 2 {
		key, value := args[i], args[i+1]
		if err := config.CheckKey(key); err != nil {
			return err
		}
		if value == fromInput {
			if read != "" {
				return usage(cmd, "only one value can be read from standard input: %s or %s", read, key)
			}
			var err error
			if value, err = p.readValue(ctx, key, secret[key]); err != nil {
				return err
			}
			read = key
		} else if secret[key] && value != "" {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: key + " is a secret: others can see the arguments of a command, and the shell keeps them",
				Remedy: "give - as the value and the secret on standard input, such as `copilot-bridge config set " + key + " - < FILE`"}
		}
		changes = append(changes, config.Change{Key: key, Value: value})
	}
	file := ""
	o := p.loadOptions(cmd)
	cfg, err := config.Rewrite(ctx, o, func(path string, old []byte) ([]byte, error) {
		file = path
		return config.Changed(o, path, old, changes)
	})
	if err != nil {
		return notWritten(err)
	}
	for _, c := range changes {
		p.console.Line("✓ " + c.Key + " is " + p.wasSet(cfg, c) + " in " + approval.Visible(p.short(file)))
		if at := cfg.Origin(c.Key); c.Value != "" && at.Source != config.SourceFile {
			p.console.Warn("it has no effect here: " + at.Where + " goes before the file")
		}
	}
	return nil
}

// wasSet says what a setting was changed to, as `config show` would.
func (p *program) wasSet(cfg *config.Config, c config.Change) string {
	if c.Value == "" {
		return "unset"
	}
	for _, s := range cfg.Show() {
		if s.Key == c.Key && !s.Secret && s.Origin.Source == config.SourceFile {
			return "set to " + view.Fit(approval.Visible(s.Value), 60)
		}
	}
	return "set"
}

// notWritten says of a configuration that is not valid that the old one stays.
func notWritten(err error) error {
	var e *bridge.Error
	if !errors.As(err, &e) || e.Code != bridge.CodeInvalid || !strings.HasPrefix(e.Remedy, "Correct this") {
		return err
	}
	out := *e
	for _, k := range config.Keys() { // which the file has
		out.Message = strings.ReplaceAll(out.Message, k.Env+":", k.Key+":")
	}
	out.Remedy = "Nothing was written. Set what belongs together in one command, or use `copilot-bridge config edit`."
	return &out
}

// maxValue is the longest value that is read: config.yaml is no longer either.
const maxValue = 64 << 10

// readValue reads one value from standard input: all of it or, from a terminal,
// a line, which is not shown if it is secret.
func (p *program) readValue(ctx context.Context, key string, secret bool) (string, error) {
	if p.env.IsTerminal(p.env.Stdin) {
		k := p.keyboard()
		if k == nil {
			return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "nobody can be asked for " + key, Remedy: "give it on standard input"}
		}
		defer k.Close()
		ask := k.Line
		if secret {
			ask = k.Hidden
		}
		value, err := ask(ctx, key+": ")
		return strings.TrimSpace(value), err
	}
	data, err := io.ReadAll(io.LimitReader(p.env.Stdin, maxValue+1))
	switch value := strings.TrimRight(string(data), "\r\n"); {
	case err != nil:
		return "", err
	case len(data) > maxValue:
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the value on standard input is longer than %d KiB", maxValue>>10)}
	case value == "":
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "standard input is empty, and was to hold " + key, Remedy: `to unset it give "" as the value`}
	default:
		return value, nil
	}
}

func (p *program) configGetCommand() *cobra.Command {
	return p.command(&cobra.Command{
		Use:   "get KEY",
		Short: "Print the value of a setting that is in force",
		Long: `Print the value of a setting that is in force, wherever it comes from. Secrets are not
printed; config show says where they come from.`,
		Example:           "  copilot-bridge config get serve.port",
		Args:              takes(cobra.ExactArgs(1), "one key"),
		ValidArgsFunction: completeSettings(false),
	}, func(_ context.Context, c call) error {
		if err := config.CheckKey(c.args[0]); err != nil {
			return err
		}
		for _, s := range c.cfg.Show() {
			if s.Key == c.args[0] && s.Secret {
				return &bridge.Error{Code: bridge.CodeInvalid, Message: s.Key + " is a secret, which is not printed", Remedy: "`copilot-bridge config show` says where it comes from"}
			}
		}
		return p.print(c.cfg.Value(c.args[0]) + "\n")
	})
}

func (p *program) configInitCommand() *cobra.Command {
	return complete(&cobra.Command{
		Use:   "init",
		Short: "Write a config.yaml with every setting explained",
		Long: `Write a config.yaml that explains every setting and has its default, switched off. A file
that exists is never overwritten.`,
		Example: `  copilot-bridge config init
  copilot-bridge config edit`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, in := p.interruptible(cmd.Context())
			defer in.stop()
			file := ""
			_, err := config.Rewrite(ctx, p.loadOptions(cmd), func(path string, old []byte) ([]byte, error) {
				if file = path; old != nil {
					return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: path + " exists already, and was not changed",
						Remedy: "change it with `copilot-bridge config edit` or `copilot-bridge config set`"}
				}
				return config.Template(), nil
			})
			if err == nil {
				p.console.Line("✓ written: " + approval.Visible(p.short(file)))
			}
			return err
		},
	})
}
