package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

func (p *program) acpCommand() *cobra.Command {
	o := &acpOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "acp",
		Short: "Run as an ACP agent",
		Long: `Run as an agent of the Agent Client Protocol (ACP) on standard input and output, for
Zed, acpx, OpenClaw and other clients, which start it themselves. See docs/guides/acp.md.

Copilot works in the directory that the client names, under your policy. What the policy
wants consent for (commands, the network) the client asks you. Sessions appear in
copilot-bridge sessions, decisions in copilot-bridge audit.

Standard output carries the protocol only. The program ends with its standard input.

With --port clients connect over TCP, from this machine only. The first line that a client
sends is the token: COPILOT_BRIDGE_TOKEN, or else the one that is made and kept in
serve.token in the bridge's home. When a client disconnects, its turns and sessions end.`,
		Example: `  copilot-bridge acp
  copilot-bridge acp --read-only
  copilot-bridge acp --demo
  copilot-bridge acp --port 3000
  (cat ~/.copilot-bridge/serve.token; cat) | nc 127.0.0.1 3000
  acpx --agent "copilot-bridge acp" exec "list the files"`,
	}, func(ctx context.Context, c call) error { return p.acp(ctx, c, o) })
	f := flagsOf(cmd)
	p.modelFlag(f, "`MODEL` that sessions begin with")
	f.setting("reasoning_effort", "reasoning-effort", "reasoning `EFFORT` of the model")
	f.BoolVar(&o.readOnly, "read-only", false, "let Copilot write only where a policy that you trust allows it")
	f.IntVar(&o.port, "port", 0, "`PORT` to listen on instead of standard input; 0 picks a free one")
	f.complete("port", cobra.NoFileCompletions)
	f.setting("serve.token", "token", "with --port: `TOKEN` that clients must send")
	f.demo()
	f.json("with --port: write a line of JSON when ready")
	return cmd
}

// acpOptions are the flags of acp.
type acpOptions struct {
	port     int
	readOnly bool
}

func (p *program) acp(ctx context.Context, c call, o *acpOptions) error {
	listens, cfg := c.cmd.Flags().Changed("port"), c.cfg
	if !listens && (p.json || c.cmd.Flags().Changed("token")) {
		return usage(c.cmd, "--json and --token are for --port")
	}
	if listens {
		with, err := app.WithKeptToken(ctx, cfg)
		if err != nil {
			return err
		}
		p.scrub.Learn(with.Secrets())
		cfg = with
	}
	options := p.options(cfg)
	options.DemoIfNone, options.Patient = false, true // the client asks the person to log in
	b, err := p.start(ctx, options)
	if err != nil {
		return err
	}
	defer p.close(ctx, b)
	if listens {
		return b.ListenACP(ctx, o.port, o.readOnly, func(address string) { p.acpReady(b, c.cfg, "tcp://"+address) })
	}
	if p.hasKeyboard() {
		p.console.Dim("An ACP agent talks to programs: start it from your editor (docs/guides/acp.md). Ctrl-C ends it.")
	}
	err = b.ServeACP(ctx, p.env.Stdin, p.out, o.readOnly)
	if ctx.Err() != nil && bridge.CodeOf(context.Cause(ctx)) == bridge.CodeCanceled || errors.Is(err, io.ErrClosedPipe) {
		return nil // told to end, which is its ordinary end too
	}
	return err
}

// acpReady says that clients can connect, and with what.
func (p *program) acpReady(b *app.Bridge, cfg *config.Config, url string) {
	if p.json {
		p.ready(readyLine{URL: url, Token: true})
		return
	}
	token := "the configured token"
	if cfg.Serve.Token == "" {
		token = "the token in " + p.short(app.TokenFile(cfg))
	}
	p.console.Ready(url)
	p.console.Dim("  a client's first line is " + token + "   (Ctrl-C to stop)")
	p.notice(b.Answers)
}
