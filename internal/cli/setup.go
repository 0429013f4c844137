package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

func (p *program) setupCommand() *cobra.Command {
	acp := false
	cmd := p.command(&cobra.Command{
		Use:   "setup",
		Short: "Install the Copilot runtime",
		Long: `Install the pinned Copilot runtime with npm into the bridge's home. Other commands install
it when they need it. An existing install is kept.`,
		Example: `  copilot-bridge setup
  copilot-bridge setup --acp`,
	}, func(ctx context.Context, c call) error { return p.setup(ctx, c.cfg, acp) })
	f := flagsOf(cmd)
	f.BoolVar(&acp, "acp", false, "also install the Copilot CLI, which speaks the Agent Client Protocol")
	f.json("write progress and the result as JSON lines")
	return cmd
}

// installed is what setup says of one program.
type installed struct {
	Product string `json:"product"`
	Version string `json:"version"` // what the program itself reports
	Package string `json:"package"` // the npm package's version
	Path    string `json:"path"`
	Already bool   `json:"already"` // it was there before
}

// product is one of the two programs that setup installs.
type product struct {
	name, pin string
	install   func(context.Context, copilotruntime.Options, copilotruntime.Progress) (copilotruntime.Runtime, error)
}

func (p *program) setup(ctx context.Context, cfg *config.Config, acp bool) error {
	products := []product{{"Copilot runtime", copilotruntime.RuntimeVersion, copilotruntime.Install}}
	if acp {
		products = append(products, product{"Copilot CLI", copilotruntime.CLIVersion, copilotruntime.InstallCLI})
	}
	all := []installed{}
	for _, prod := range products {
		shows, worked := p.activity(view.Options{}), false // an install that is there already takes no steps
		stop := shows.Begin("looking for the " + prod.name)
		rt, err := prod.install(ctx, copilotruntime.Options{Home: cfg.Home}, func(s copilotruntime.Step) {
			worked = true
			shows.Step(s)
		})
		if stop(); err != nil {
			return err
		}
		all = append(all, installed{Product: prod.name, Version: rt.Version, Package: prod.pin, Path: rt.Path, Already: !worked})
	}
	if p.json {
		return p.printJSON(map[string]any{"type": "setup", "installed": all})
	}
	for _, i := range all {
		how := "is installed"
		if i.Already {
			how = "was installed already"
		}
		if err := p.print(fmt.Sprintf("✓ %s, package %s, %s: %s (reports version %s)\n", i.Product, i.Package, how, i.Path, i.Version)); err != nil {
			return err
		}
	}
	if cfg.CLIPath != "" {
		p.console.Warn("COPILOT_CLI_PATH is set, so that " + cfg.CLIPath + " is used instead")
	}
	return nil
}
