package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

type setupOptions struct {
	acp  bool
	json bool
}

func (p *program) setupCommand() *cobra.Command {
	o := &setupOptions{}
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Install the Copilot runtime",
		Long: `Install the Copilot runtime that this version was built for, through npm, into the
bridge's home. Other commands do so by themselves when they need it; setup is for
doing it beforehand. What is there already is left alone.`,
		Example: `  copilot-bridge setup
  copilot-bridge setup --acp`,
		Args: takes(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runSetup(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.acp, "acp", false, "install the Copilot CLI too, which speaks the agent client protocol")
	cmd.Flags().BoolVar(&o.json, "json", false, "write progress and the result as JSON lines")
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

func (p *program) runSetup(ctx context.Context, o *setupOptions) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(ctx)
	defer in.stop()
	products := []product{{"Copilot runtime", copilotruntime.RuntimeVersion, copilotruntime.Install}}
	if o.acp {
		products = append(products, product{"Copilot CLI", copilotruntime.CLIVersion, copilotruntime.InstallCLI})
	}
	all := []installed{}
	for _, prod := range products {
		done, err := p.install(ctx, cfg, prod, o.json)
		if err != nil {
			return err
		}
		all = append(all, done)
	}
	if o.json {
		return p.printJSON(map[string]any{"type": "setup", "installed": all})
	}
	for _, i := range all {
		how := "is installed"
		if i.Already {
			how = "was installed already"
		}
		if err := p.print(fmt.Sprintf("✓ %s %s %s: %s\n", i.Product, i.Package, how, i.Path)); err != nil {
			return err
		}
	}
	if cfg.CLIPath != "" {
		p.console.line("! COPILOT_CLI_PATH is set, so that " + cfg.CLIPath + " is used instead")
	}
	return nil
}

func (p *program) install(ctx context.Context, cfg *config.Config, prod product, asJSON bool) (installed, error) {
	b := newBar(p.console)
	defer b.done()
	show := b.step
	if asJSON {
		show = p.jsonSteps()
	}
	worked := false // an install that is there already takes no steps
	rt, err := prod.install(ctx, copilotruntime.Options{Home: cfg.Home}, func(s copilotruntime.Step) {
		worked = true
		show(s)
	})
	if err != nil {
		return installed{}, err
	}
	return installed{Product: prod.name, Version: rt.Version, Package: prod.pin, Path: rt.Path,
		Already: !worked}, nil
}

// jsonSteps reports progress as JSON lines, one for each step and tenth.
func (p *program) jsonSteps() copilotruntime.Progress {
	text, tenth := "", int64(-1)
	return func(s copilotruntime.Step) {
		now := int64(0)
		if s.Total > 0 {
			now = s.Done * 10 / s.Total
		}
		if s.Text == text && now <= tenth {
			return
		}
		text, tenth = s.Text, now
		// A failure to write is noticed by the stream.
		_ = p.printJSON(map[string]any{"type": "progress", "text": s.Text, "done": s.Done, "total": s.Total})
	}
}
