package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

func (p *program) abpCommand() *cobra.Command {
	var demo bool
	cmd := &cobra.Command{
		Use:   "abp",
		Short: "Be an Agent Backplane sidecar, or check its receipts",
		Long: `Be a sidecar of the Agent Backplane: say hello on standard output, do the one work
order that comes on standard input, and end with its receipt. Standard output carries
envelopes and nothing else; what people should know goes to standard error.

A work order's policy is held by the guard before a tool runs, together with your own
policy files; what would need consent is denied, because nobody is there to give it.
docs/abp.md has the set-up.

` + exitHelp,
		Example: `  copilot-bridge abp                        # as the command of a back end
  copilot-bridge abp verify receipt.json
  copilot-bridge abp canonical receipt.json | sha256sum
  copilot-bridge abp validate < session.jsonl`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runABP(cmd.Context(), demo) },
	}
	cmd.Flags().BoolVar(&demo, "demo", false, "let the built-in rehearsal model answer")
	cmd.AddCommand(p.abpVerifyCommand(), p.abpCanonicalCommand(), p.abpValidateCommand())
	return cmd
}

// runABP serves one work order. Whatever goes wrong is told in the protocol,
// since that is all that the other side reads.
func (p *program) runABP(ctx context.Context, demo bool) error {
	ctx, in := p.interruptible(ctx)
	defer in.stop()
	s := p.startSidecar(ctx, demo)
	defer func() {
		if err := s.Close(ctx); err != nil {
			p.log.Warn("the end was not clean", "error", err)
		}
	}()
	err := s.Serve(ctx, p.env.Stdin, p.out, p.env.Dir)
	if bridge.CodeOf(err) == bridge.CodeBudget {
		return &exitError{code: exitPartly, err: err}
	}
	return err
}

func (p *program) startSidecar(ctx context.Context, demo bool) *app.Sidecar {
	o := app.Options{Self: p.env.Executable, Version: buildVersion(), Environ: p.env.Environ, UserDir: p.env.HomeDir, Logger: p.log, Demo: demo}
	cfg, err := p.load(nil)
	if err == nil && p.env.Executable == "" {
		err = errors.New("the path of this program is not known: call it by its full path")
	}
	o.Logger = p.log
	if err != nil {
		return app.BrokenSidecar(o, err)
	}
	bar := newBar(p.console)
	defer bar.done()
	o.Config, o.Progress = cfg, copilotruntime.Progress(bar.step)
	return app.StartSidecar(ctx, o)
}
