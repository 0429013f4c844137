package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// acpOptions are the flags of acp.
type acpOptions struct {
	model, effort  string
	readOnly, demo bool
}

func (p *program) acpCommand() *cobra.Command {
	o := &acpOptions{}
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "Be an agent for editors that speak the Agent Client Protocol",
		Long: `Be an agent of the Agent Client Protocol (ACP) on standard input and output, for
Zed, acpx, OpenClaw and other clients. They start it by themselves; see docs/acp.md
for how to set up each of them.

Copilot works in the directory that the client names, under your policy: it may
read and write there, and what the policy asks about (commands, the network) is
put to you in the client. Secrets are hidden, and everything is on record; see
copilot-bridge audit. Sessions are on the list of copilot-bridge sessions.

Standard output carries the protocol only; logs go to standard error. The end of
standard input ends every turn and the program.

` + exitHelp,
		Example: `  copilot-bridge acp
  copilot-bridge acp --read-only
  copilot-bridge acp --demo
  acpx --agent "copilot-bridge acp" exec "list the files"`,
		Args:              takes(cobra.NoArgs, "no arguments"),
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.runACP(cmd, o) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVarP(&o.model, "model", "m", "", "`MODEL` that sessions begin with")
	f.StringVar(&o.effort, "reasoning-effort", "", "`HOW` much the model should think")
	f.BoolVar(&o.readOnly, "read-only", false, "let Copilot write only where a policy that you trust allows it")
	f.BoolVar(&o.demo, "demo", false, "let the built-in rehearsal model answer")
	p.must(cmd.RegisterFlagCompletionFunc("model", cobra.NoFileCompletions))
	p.must(cmd.RegisterFlagCompletionFunc("reasoning-effort", fixedCompletions(settingValues("reasoning_effort"))))
	return cmd
}

func (p *program) runACP(cmd *cobra.Command, o *acpOptions) error {
	flags := map[string]string{}
	for key, value := range map[string]string{"model": o.model, "reasoning_effort": o.effort} {
		if value != "" {
			flags[key] = value
		}
	}
	cfg, err := p.load(flags)
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	b, err := p.start(ctx, cfg, o.demo)
	if err != nil {
		return err
	}
	defer func() {
		if err := b.Close(ctx); err != nil {
			p.log.Warn("the end was not clean", "error", err)
		}
	}()
	if p.hasKeyboard() {
		p.console.line(p.console.style.dim("An ACP agent talks to programs: start it from your editor (docs/acp.md). Ctrl-C ends it."))
	}
	err = b.ServeACP(ctx, p.env.Stdin, p.out, o.readOnly)
	if ctx.Err() != nil && bridge.CodeOf(context.Cause(ctx)) == bridge.CodeCanceled || errors.Is(err, io.ErrClosedPipe) {
		return nil // told to end, which is its ordinary end too
	}
	return err
}
