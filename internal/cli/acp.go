package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
)

func (p *program) acpCommand() *cobra.Command {
	readOnly := false
	cmd := p.command(&cobra.Command{
		Use:   "acp",
		Short: "Run as an ACP agent",
		Long: `Run as an agent of the Agent Client Protocol (ACP) on standard input and output, for
Zed, acpx, OpenClaw and other clients, which start it themselves. See docs/guides/acp.md.

Copilot works in the directory that the client names, under your policy. What the policy
wants consent for (commands, the network) the client asks you. Sessions appear in
copilot-bridge sessions, decisions in copilot-bridge audit.

Standard output carries the protocol only. The program ends with its standard input.`,
		Example: `  copilot-bridge acp
  copilot-bridge acp --read-only
  copilot-bridge acp --demo
  acpx --agent "copilot-bridge acp" exec "list the files"`,
	}, func(ctx context.Context, c call) error { return p.acp(ctx, p.options(c.cfg), readOnly) })
	f := flagsOf(cmd)
	f.setting("model", "model", "m", "`MODEL` that sessions begin with")
	f.setting("reasoning_effort", "reasoning-effort", "", "reasoning `EFFORT` of the model")
	f.BoolVar(&readOnly, "read-only", false, "let Copilot write only where a policy that you trust allows it")
	f.demo()
	return cmd
}

func (p *program) acp(ctx context.Context, o app.Options, readOnly bool) error {
	o.DemoIfNone, o.Patient = false, true // the client asks the person to log in
	b, err := p.start(ctx, o)
	if err != nil {
		return err
	}
	defer p.close(ctx, b)
	if p.hasKeyboard() {
		p.console.Dim("An ACP agent talks to programs: start it from your editor (docs/guides/acp.md). Ctrl-C ends it.")
	}
	err = b.ServeACP(ctx, p.env.Stdin, p.out, readOnly)
	if ctx.Err() != nil && bridge.CodeOf(context.Cause(ctx)) == bridge.CodeCanceled || errors.Is(err, io.ErrClosedPipe) {
		return nil // told to end, which is its ordinary end too
	}
	return err
}
