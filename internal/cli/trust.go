package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

func (p *program) trustCommand() *cobra.Command {
	var list, remove, yes bool
	cmd := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Trust the policy file and the .env file of a workspace",
		Long: `Trust the policy file (` + policy.WorkspaceFile + `) and the .env file of a workspace, as they are now.

Such files come with the code. Of an untrusted policy file only the restrictions apply; of
an untrusted .env file nothing. The content is shown, except for secrets, with what it
loosens, and you are asked. Any change to a file revokes its trust.`,
		Example: `  copilot-bridge trust
  copilot-bridge trust ~/src/app
  copilot-bridge trust --yes
  copilot-bridge trust --list
  copilot-bridge trust --remove ~/src/app`,
		Args: takes(cobra.MaximumNArgs(1), "at most one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := p.loadQuietly(cmd)
			if err != nil {
				return err
			}
			dir := p.path(strings.Join(args, ""))
			switch trust := app.Trust(cfg); {
			case list && remove:
				return usage(cmd, "--list and --remove exclude each other")
			case list:
				return p.listTrust(trust)
			case remove:
				return p.removeTrust(cmd.Context(), trust, dir)
			default:
				if dir, err = p.directory(dir, "`copilot-bridge trust DIR`"); err != nil {
					return err
				}
				return p.addTrust(cmd, trust, dir, yes)
			}
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list what is trusted")
	cmd.Flags().BoolVar(&remove, "remove", false, "revoke the trust")
	flagsOf(cmd).yes(&yes, "trust without being asked")
	return cmd
}

func (p *program) listTrust(trust policy.Trust) error {
	entries, err := trust.List()
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return p.print("No file is trusted yet.\n")
	}
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, []string{e.Added.Local().Format("2006-01-02 15:04"), e.Path, fmt.Sprintf("sha256 %.12s…", e.SHA256)})
	}
	return p.print(view.Table(rows, 0))
}

// addTrust shows the files, says what they would change, and asks.
func (p *program) addTrust(cmd *cobra.Command, trust policy.Trust, dir string, yes bool) error {
	rules, err := policy.LoadWorkspace(dir)
	if err != nil {
		return err
	}
	dotenv, err := config.ReadDotEnv(dir, p.env.HomeDir)
	if err != nil {
		return err
	}
	if rules == nil && dotenv == nil {
		return &bridge.Error{Code: bridge.CodeNotFound,
			Message: "there is no " + policy.WorkspaceFile + " in " + dir + ", and no .env file with settings of the bridge",
			Remedy:  "name the root of a workspace that has one"}
	}
	var b strings.Builder
	if rules != nil {
		writeln(&b, approval.Visible(rules.Path))
		for line := range strings.Lines(string(rules.Data)) {
			writeln(&b, "  │ "+approval.Visible(strings.TrimRight(line, "\r\n")))
		}
		loosens := rules.Rules.Loosens()
		if len(loosens) == 0 {
			writeln(&b, "It loosens nothing: its restrictions count without trust.")
		}
		for _, words := range loosens {
			writeln(&b, "It loosens: "+approval.Visible(words))
		}
	}
	if dotenv != nil {
		writeln(&b, approval.Visible(dotenv.Path))
		for _, s := range dotenv.Settings {
			writeln(&b, "  │ "+s.Env+"="+approval.Visible(s.Value)+"   "+s.Description)
		}
		writeln(&b, "It decides what is above.")
	}
	if err := p.print(b.String()); err != nil {
		return err
	}
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	if !yes {
		if err := p.confirm(ctx, call{cmd: cmd}, "trust", "Trust it as it stands?", "nothing is trusted"); err != nil {
			return err
		}
	}
	b.Reset()
	if rules != nil {
		if err := trust.Add(ctx, rules.Path, rules.Data); err != nil {
			return err
		}
		writeln(&b, "✓ trusted as it stands above: "+approval.Visible(rules.Path))
	}
	if dotenv != nil {
		if err := trust.Add(ctx, dotenv.Path, dotenv.Data); err != nil {
			return err
		}
		writeln(&b, "✓ trusted, with what it decides above: "+approval.Visible(dotenv.Path))
	}
	return p.print(b.String())
}

func (p *program) removeTrust(ctx context.Context, trust policy.Trust, dir string) error {
	var b strings.Builder
	for _, name := range []string{policy.WorkspaceFile, config.DotEnvName} {
		path := filepath.Join(dir, name)
		gone, err := trust.Remove(ctx, path)
		if err != nil {
			return err
		}
		if gone {
			writeln(&b, approval.Visible(path)+" is no longer trusted.")
		}
	}
	if b.Len() == 0 {
		writeln(&b, "Nothing in "+approval.Visible(dir)+" was trusted.")
	}
	return p.print(b.String())
}
