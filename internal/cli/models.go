package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

func (p *program) modelsCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use:   "models",
		Short: "List the models that can answer",
		Long: `List the models that can answer: those of your account, or of your provider. PREMIUM is how
many premium requests a turn costs; STATE says whether your account may use the model.
The runtime is started for the list, but no model is called. The shell then completes --model.`,
		Example: `  copilot-bridge models
  copilot-bridge models --json | jq -r '.models[] | select(.vision) | .id'`,
	}, func(ctx context.Context, c call) error { return p.listModels(ctx, c.cfg) })
	f := flagsOf(cmd)
	f.json("write JSON")
	f.demo()
	return cmd
}

// listedModels is what models writes as JSON.
type listedModels struct {
	Answers bridge.Answers `json:"answers"`
	Models  []bridge.Model `json:"models"`
}

func (p *program) listModels(ctx context.Context, cfg *config.Config) (err error) {
	b, err := p.start(ctx, p.options(cfg))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(ctx)) }()
	stop := p.progress().Begin("asking for the models")
	models, err := b.Engine.Models(ctx)
	stop()
	if err != nil {
		return err
	}
	if err := app.KeepModels(cfg, models); err != nil {
		p.log.Warn("models.not_kept", "error", err) // only completion misses them
	}
	if p.json {
		return p.printJSON(listedModels{b.Answers.Answers, append([]bridge.Model{}, models...)})
	}
	p.console.Dim(b.Answers.Detail)
	p.notice(b.Answers)
	rows := [][]string{{"MODEL", "NAME", "VENDOR", "CONTEXT", "OUTPUT", "VISION", "REASONING", "PREMIUM", "STATE"}}
	for _, m := range models {
		row := []string{m.ID, m.Name, m.Vendor, tokenCount(m.ContextTokens), tokenCount(m.OutputTokens), "", strings.Join(m.ReasoningEfforts, ","), "", m.Policy}
		if m.Vision {
			row[5] = "yes"
		}
		if m.Multiplier != nil {
			row[7] = strconv.FormatFloat(*m.Multiplier, 'g', -1, 64)
		}
		rows = append(rows, row)
	}
	width := 0 // no limit in a pipe
	if p.console.OutTTY {
		width = p.env.Width(p.env.Stdout)
	}
	return p.print(view.Table(rows, width))
}

func tokenCount(n int) string {
	if n == 0 {
		return "" // not known
	}
	return view.Count(int64(n))
}

// completeModels offers the models that were listed last.
func (p *program) completeModels(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completions(func(_ context.Context, cfg *config.Config) (out []cobra.Completion, err error) {
		models, err := app.KeptModels(cfg)
		for _, m := range models {
			about := approval.Visible(m.Name)
			if m.Multiplier != nil {
				about += fmt.Sprintf(", premium × %g", *m.Multiplier)
			}
			out = append(out, cobra.CompletionWithDesc(m.ID, about))
		}
		return out, err
	})(cmd, args, typed)
}

// modelFlag is the setting for a model as a flag.
func (p *program) modelFlag(f flagSet, about string) {
	f.completed("model", "model", "m", about, p.completeModels)
}
