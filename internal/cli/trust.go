package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

func (p *program) trustCommand() *cobra.Command {
	var list, remove bool
	cmd := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Trust the policy file of a workspace",
		Long: `Trust the policy file (` + policy.WorkspaceFile + `) of a workspace, as it is now.

Such a file comes with the code. Until you trust it only its restrictions count; what it
would allow without asking is asked about all the same. Read it first: it is shown. Any
change to the file takes the trust away again.`,
		Example: `  copilot-bridge trust
  copilot-bridge trust ~/src/app
  copilot-bridge trust --list
  copilot-bridge trust --remove ~/src/app`,
		Args: takes(cobra.MaximumNArgs(1), "at most one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := p.env.Dir
			if len(args) == 1 {
				dir = args[0]
				if !filepath.IsAbs(dir) {
					dir = filepath.Join(p.env.Dir, dir)
				}
			}
			switch {
			case list && remove:
				return usage(cmd, "--list and --remove exclude each other")
			case list:
				return p.runTrustList()
			}
			return p.runTrust(cmd.Context(), dir, remove)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list what is trusted")
	cmd.Flags().BoolVar(&remove, "remove", false, "take the trust away")
	return cmd
}

func (p *program) runTrustList() error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	entries, err := app.Trust(cfg).List()
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return p.print("No policy file is trusted yet.\n")
	}
	for _, e := range entries {
		if err := p.print(fmt.Sprintf("%s  %s  sha256 %.12s…\n", e.Added.Local().Format("2006-01-02 15:04"), approval.Visible(e.Path), e.SHA256)); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) runTrust(ctx context.Context, dir string, remove bool) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	trust := app.Trust(cfg)
	if remove {
		path := filepath.Join(dir, policy.WorkspaceFile)
		gone, err := trust.Remove(ctx, path)
		if err != nil {
			return err
		}
		if !gone {
			return p.print(approval.Visible(path) + " was not trusted.\n")
		}
		return p.print(approval.Visible(path) + " is no longer trusted.\n")
	}
	file, err := policy.LoadWorkspace(dir)
	if err != nil {
		return err
	}
	if file == nil {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no " + policy.WorkspaceFile + " in " + dir,
			Remedy: "name the root of a workspace that has one"}
	}
	if err := trust.Add(ctx, file.Path, file.Data); err != nil {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(string(file.Data)) {
		writeln(&b, "  │ "+approval.Visible(strings.TrimRight(line, "\r\n")))
	}
	writeln(&b, "✓ trusted as it stands above: "+approval.Visible(file.Path))
	return p.print(b.String())
}
