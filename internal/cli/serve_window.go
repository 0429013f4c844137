package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

// hostVSCode is the one editor that can be a host.
const hostVSCode = "vscode"

// serveWindow serves inside an editor's window: standard input and output are
// the extension's, and their end is the ordinary end.
func (p *program) serveWindow(cmd *cobra.Command, o *serveOptions, cfg *config.Config) (err error) {
	switch {
	case o.host != hostVSCode:
		return usage(cmd, "--host=%s: must be %s", o.host, hostVSCode)
	case o.json || o.demo:
		return usage(cmd, "--json and --demo do not go with --host")
	case cfg.Serve.Token == "":
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "a bridge in an editor needs a token, and none is set",
			Remedy: "the extension sets COPILOT_BRIDGE_TOKEN; start the bridge by “Bridge: Enable” in VS Code's command palette"}
	}
	if cfg.Origin("serve.port").Source == config.SourceDefault {
		cfg.Serve.Port = 0 // there may be as many windows as one likes
	}
	ctx, interrupted := p.interruptible(cmd.Context())
	defer interrupted.stop()
	// The protocol carries the user's documents, which nothing may rewrite.
	w, err := app.OpenWindow(ctx, p.env.Stdin, p.env.Stdout, buildVersion(), p.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var dirs []string
	for _, d := range o.workspaces {
		dir, err := p.directory(d)
		if err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	w.Open(dirs)
	ctx, leave := w.Attend(ctx)
	defer leave()
	b, err := p.startWith(ctx, app.Options{Config: cfg, Window: w})
	if err != nil {
		return err
	}
	defer func() {
		if err := b.Close(ctx); err != nil {
			p.log.Warn("the end was not clean", "error", err)
		}
	}()
	serving := app.Serving{ReadWrite: o.readWrite}
	if o.rpcPort >= 0 {
		serving.RPCPort = &o.rpcPort
	}
	s, err := b.Listen(ctx, serving)
	if err != nil {
		return err
	}
	return s.Serve(ctx, func() { p.log.Info("the bridge answers", "url", s.URL(), "rpc", s.RPC()) })
}
