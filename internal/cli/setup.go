package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

type setupOptions struct{ acp, json bool }

func (p *program) setupCommand() *cobra.Command {
	o := &setupOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "setup",
		Short: "Install the Copilot runtime",
		Long: `Install the pinned Copilot runtime with npm into the bridge's home. Other commands install
it when they need it. An existing install is kept.`,
		Example: `  copilot-bridge setup
  copilot-bridge setup --acp`,
	}, func(ctx context.Context, c call) error { return p.setup(ctx, c.cfg, o) })
	f := flagsOf(cmd)
	f.BoolVar(&o.acp, "acp", false, "also install the Copilot CLI, which speaks the Agent Client Protocol")
	f.json(&o.json, "write progress and the result as JSON lines")
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

func (p *program) setup(ctx context.Context, cfg *config.Config, o *setupOptions) error {
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
	return installed{Product: prod.name, Version: rt.Version, Package: prod.pin, Path: rt.Path, Already: !worked}, nil
}

// jsonSteps reports progress as JSON lines.
func (p *program) jsonSteps() copilotruntime.Progress {
	return tenths(func(s copilotruntime.Step, _ int64) {
		// A failure to write is noticed by the stream.
		_ = p.printJSON(map[string]any{"type": "progress", "text": s.Text, "done": s.Done, "total": s.Total})
	})
}

// tenths passes on one report for each step and each tenth of it.
func tenths(report func(s copilotruntime.Step, tenth int64)) copilotruntime.Progress {
	text, last := "", int64(0)
	return func(s copilotruntime.Step) {
		tenth := int64(0)
		if s.Total > 0 {
			tenth = s.Done * 10 / s.Total
		}
		if s.Text != text {
			text, last = s.Text, 0
			report(s, 0)
		}
		if tenth > last {
			last = tenth
			report(s, tenth)
		}
	}
}

// bar shows the progress of an install: in place on a terminal, elsewhere as
// a line for each step and each tenth.
type bar struct {
	c     *console
	now   func() time.Time
	began time.Time

	mu    sync.Mutex
	lines copilotruntime.Progress
}

func newBar(c *console) *bar {
	return &bar{c: c, now: time.Now, began: time.Now(), lines: tenths(func(s copilotruntime.Step, tenth int64) {
		if tenth == 0 {
			c.line(s.Text)
		} else {
			c.line(fmt.Sprintf("  %d %% (%d of %d MB)", tenth*10, megabytes(s.Done), megabytes(s.Total)))
		}
	})}
}

// step is a copilotruntime.Progress.
func (b *bar) step(s copilotruntime.Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c.errTTY {
		b.c.show([]liveLine{{b.line(s), nil}})
		return
	}
	b.lines(s)
}

func (b *bar) line(s copilotruntime.Step) string {
	text := s.Text
	if s.Total > 0 {
		const width = 20
		full := int(min(s.Done, s.Total) * width / s.Total)
		text += fmt.Sprintf("  %s%s %3d %%  %d of %d MB", strings.Repeat("█", full), strings.Repeat("░", width-full),
			s.Done*100/s.Total, megabytes(s.Done), megabytes(s.Total))
	}
	return text + elapsed(b.now().Sub(b.began))
}

// done takes the bar off the screen.
func (b *bar) done() { b.c.show(nil) }

func megabytes(n int64) int64 { return (n + 500_000) / 1_000_000 }
