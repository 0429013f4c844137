package cli

import (
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

const configFile = "config.yaml"

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration in force",
		Example: `  copilot-bridge config show
  copilot-bridge config path`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var asJSON bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Show every setting, its value and where that comes from",
		Long: `Show every setting, its value and where that comes from. Flags count more than
the environment, that more than a .env file in the working directory, that more
than config.yaml in the bridge's home, that more than the defaults. Secrets are masked.

A .env file counts only if you trust it (copilot-bridge trust). What one that you do
not trust would decide is marked "not taken".`,
		Example: `  copilot-bridge config show
  copilot-bridge config show --json | jq '.[] | select(.origin.source!="default")'`,
		Args: takes(cobra.NoArgs, "no arguments"),
		RunE: func(*cobra.Command, []string) error { return p.runConfigShow(asJSON) },
	}
	show.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	path := &cobra.Command{
		Use:     "path",
		Short:   "Say where config.yaml is looked for",
		Example: "  ${EDITOR:-vi} \"$(copilot-bridge config path)\"",
		Args:    takes(cobra.NoArgs, "no arguments"),
		RunE:    func(*cobra.Command, []string) error { return p.runConfigPath() },
	}
	cmd.AddCommand(show, path)
	return cmd
}

func (p *program) runConfigShow(asJSON bool) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	settings := cfg.Show()
	if asJSON {
		return p.printJSON(settings)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row(w, "KEY", "VALUE", "ORIGIN", "VARIABLE")
	for _, s := range settings {
		origin := s.Origin.String()
		if s.NotTaken != "" {
			origin += " (" + s.NotTaken + " not taken)"
		}
		value := fit(approval.Visible(s.Value), 60)
		if value == "" {
			value = "-"
		}
		row(w, s.Key, value, origin, s.Env)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return p.print(b.String())
}

// row writes one line of a table; the writer is a buffer, which cannot fail.
func row(w *tabwriter.Writer, cells ...string) {
	_, _ = w.Write([]byte(strings.Join(cells, "\t") + "\n"))
}

// runConfigPath works with a broken file too: one wants to mend it.
func (p *program) runConfigPath() error {
	cfg, err := p.load(nil)
	if err == nil {
		return p.print(cfg.Path(configFile) + "\n")
	}
	home := p.env.get("COPILOT_BRIDGE_HOME")
	switch {
	case home == "" && p.env.HomeDir == "":
		return err
	case home == "":
		home = filepath.Join(p.env.HomeDir, ".copilot-bridge")
	case strings.HasPrefix(home, "~"):
		home = filepath.Join(p.env.HomeDir, home[1:])
	case !filepath.IsAbs(home):
		home = filepath.Join(p.env.Dir, home)
	}
	return p.print(filepath.Join(home, configFile) + "\n")
}
