package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

const configFile = "config.yaml"

func (p *program) configCommand() *cobra.Command {
	show := p.command(&cobra.Command{
		Use:   "show",
		Short: "Show every setting, its value and its origin",
		Long: `Show every setting with its value and origin. Flags override the environment, then .env in
the current directory, then config.yaml in the bridge's home, then the defaults. Secrets
are masked.

A .env file is used only if you trust it (copilot-bridge trust). Values of an untrusted one
are marked "not taken".`,
		Example: `  copilot-bridge config show
  copilot-bridge config show --json | jq '.[] | select(.origin.source!="default")'`,
	}, func(_ context.Context, c call) error { return p.show(c.cfg.Show(), settingsTable(c.cfg)) })
	flagsOf(show).json("write JSON")
	return group(&cobra.Command{
		Use:   "config",
		Short: "Show and change the configuration",
		Example: `  copilot-bridge config show
  copilot-bridge config set serve.port 9000
  copilot-bridge config edit`,
	}, show, p.configGetCommand(), p.configSetCommand(), p.configEditCommand(), p.configInitCommand(), complete(&cobra.Command{
		Use:     "path",
		Short:   "Print the path of config.yaml",
		Example: "  cat \"$(copilot-bridge config path)\"",
		RunE:    func(*cobra.Command, []string) error { return p.runConfigPath() },
	}))
}

func settingsTable(cfg *config.Config) string {
	rows := [][]string{{"KEY", "VALUE", "ORIGIN", "VARIABLE"}}
	for _, s := range cfg.Show() {
		origin := s.Origin.String()
		if s.NotTaken != "" {
			origin += " (" + s.NotTaken + " not taken)"
		}
		rows = append(rows, []string{s.Key, view.Fit(approval.Visible(s.Value), 60), origin, s.Env})
	}
	return view.Table(rows, 0)
}

// runConfigPath works with a broken file too, so that it can be corrected.
func (p *program) runConfigPath() error {
	path, err := config.FilePath(p.loadOptions(nil))
	if err != nil {
		return err
	}
	return p.print(path + "\n")
}
