package cli

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	addr, port, token     string
	workspaces            []string
	model, host           string
	rpcPort               int
	readWrite, demo, json bool
}

func (p *program) serveCommand() *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer OpenAI's and Anthropic's HTTP APIs, and the tool bus",
		Long: `Answer OpenAI's and Anthropic's HTTP APIs, so that SDKs, editors, Claude Code and
Codex can use Copilot's models. The first page, at the URL that is printed, has an
example for each.

A model such as gpt-5 answers as a plain model: it has the caller's tools and
nothing else. agent/gpt-5 is Copilot's agent in the workspace, under the policy;
it may read only, unless --read-write is given or a policy that you trust says so.

Programs that plan by themselves get the workspace's tools (search, read, patch,
format, tasks) over JSON-RPC on a WebSocket; see copilot-bridge rpc --help.

Only this machine is listened to, unless --addr says otherwise, which needs a
token: set COPILOT_BRIDGE_TOKEN rather than --token, which other users may see.
Without a token only your own programs and root's are answered; where the system does
not tell whose a connection is (macOS, Windows), a token is made and kept in
serve.token in the bridge's home.

With --json standard output gets one line when requests are answered:
{"url":…,"rpc":…,"token":true|false,"pid":…}. Ctrl-C ends running answers cleanly, then
the runtime; a second one ends the program at once.

` + exitHelp,
		Example: `  copilot-bridge serve
  copilot-bridge serve --workspace ~/src/app --read-write
  copilot-bridge serve --port 0 --json
  COPILOT_BRIDGE_TOKEN=… copilot-bridge serve --addr 0.0.0.0
  curl http://127.0.0.1:8788/v1/models`,
		Args:              takes(cobra.NoArgs, "no arguments"),
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.runServe(cmd, o) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.addr, "addr", "", "`ADDRESS` to listen on (default 127.0.0.1)")
	f.StringVar(&o.port, "port", "", "`PORT` to listen on; 0 picks a free one and remembers it (default 8788)")
	f.IntVar(&o.rpcPort, "rpc-port", -1, "`PORT` for the tool bus alone; 0 picks a free one (default: with the rest, at /rpc)")
	f.StringVar(&o.token, "token", "", "`TOKEN` that clients have to show")
	f.StringArrayVarP(&o.workspaces, "workspace", "w", nil, "`DIR` that agent/… models work in (default: the present one)")
	f.StringVar(&o.host, "host", "", "`EDITOR` that has started this program and whose models answer: vscode")
	f.StringVarP(&o.model, "model", "m", "", "`MODEL` to use where the caller's is not known and the configuration says so")
	f.BoolVar(&o.readWrite, "read-write", false, "let agent/… models write in the workspace")
	f.BoolVar(&o.demo, "demo", false, "let the built-in rehearsal model answer")
	f.BoolVar(&o.json, "json", false, "write a line of JSON when ready")
	p.must(cmd.RegisterFlagCompletionFunc("host", fixedCompletions([]string{hostVSCode})))
	for _, name := range []string{"addr", "port", "rpc-port", "token", "model"} {
		p.must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	p.must(cmd.MarkFlagDirname("workspace"))
	return cmd
}

// settings are the flags that are settings.
func (o *serveOptions) settings() map[string]string {
	flags := map[string]string{}
	for key, value := range map[string]string{"serve.addr": o.addr, "serve.port": o.port, "serve.token": o.token, "model": o.model} {
		if value != "" {
			flags[key] = value
		}
	}
	return flags
}

func (p *program) runServe(cmd *cobra.Command, o *serveOptions) error {
	cfg, err := p.load(o.settings())
	if err != nil {
		return err
	}
	if o.rpcPort < -1 || o.rpcPort > 65535 {
		return usage(cmd, "--rpc-port=%d: must be a port number from 0 to 65535", o.rpcPort)
	}
	if o.host != "" {
		return p.serveWindow(cmd, o, cfg)
	}
	if len(o.workspaces) > 1 {
		return usage(cmd, "--workspace can be given once only, except with --host")
	}
	dir, err := p.directory(strings.Join(o.workspaces, ""))
	if err != nil {
		return err
	}
	if cfg, err = p.withToken(cmd.Context(), cfg); err != nil {
		return err
	}
	ctx, interrupted := p.interruptible(cmd.Context())
	defer interrupted.stop()
	b, err := p.start(ctx, cfg, o.demo)
	if err != nil {
		return err
	}
	defer func() {
		if err := b.Close(ctx); err != nil {
			p.log.Warn("the end was not clean", "error", err)
		}
	}()
	serving := app.Serving{Workspace: dir, ReadWrite: o.readWrite, Asker: approval.Nobody{}}
	if !o.json && p.hasKeyboard() {
		k := p.openKeyboard()
		defer k.close()
		serving.Asker = asker{keyboard: k}
	}
	if o.rpcPort >= 0 {
		serving.RPCPort = &o.rpcPort
	}
	s, err := b.Listen(ctx, serving)
	if err != nil {
		return err
	}
	return s.Serve(ctx, func() { p.serving(o, b, s, dir, cfg.Serve.Token != "") })
}

// withToken sees to it that other users of this machine are kept out.
func (p *program) withToken(ctx context.Context, cfg *config.Config) (*config.Config, error) {
	with, err := app.WithToken(ctx, cfg)
	if err == nil && with != cfg {
		p.scrub.learn(with.Secrets())
		p.console.line(p.console.style.dim("clients need the token in " + approval.Visible(app.TokenFile(cfg))))
	}
	return with, err
}

// serving tells that requests are answered.
func (p *program) serving(o *serveOptions, b *app.Bridge, s *app.Server, dir string, token bool) {
	if o.json {
		line, err := json.Marshal(struct {
			URL   string `json:"url"`
			RPC   string `json:"rpc"`
			Token bool   `json:"token"`
			PID   int    `json:"pid"`
		}{s.URL(), s.RPC(), token, os.Getpid()})
		if err == nil {
			_, err = p.out.Write(append(line, '\n'))
		}
		if err != nil {
			p.log.Warn("the ready line was not written", "error", err)
		}
		return
	}
	c := p.console
	mode := "read-write"
	if s.ReadOnly() {
		mode = "read-only"
	}
	c.line("copilot-bridge is ready: " + c.style.bold(s.URL()))
	c.line(c.style.dim("  answers    " + approval.Visible(b.Answers.Detail)))
	if b.Answers.SetBy != "" {
		c.line(c.style.dim("  set by     " + approval.Visible(b.Answers.SetBy)))
	}
	c.line(c.style.dim("  workspace  " + approval.Visible(shorten(dir, "", p.env.HomeDir)) + ", " + mode))
	c.line(c.style.dim("  tool bus   " + s.RPC()))
	c.line(c.style.dim("  examples   " + s.URL() + "/   (Ctrl-C to stop)"))
	if n := b.Answers.Notice; n != "" {
		c.line(c.style.loud("! " + n))
	}
}
