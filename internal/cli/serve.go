package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	workspaces []string
	host       string
	rpcPort    int
	readWrite  bool
	detach     bool
	log        string // the file that standard error is, for those who look for it
}

func (p *program) serveCommand() *cobra.Command {
	o := &serveOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "serve",
		Short: "Serve OpenAI's and Anthropic's HTTP APIs, and the tool bus",
		Long: `Serve OpenAI's and Anthropic's HTTP APIs, so that SDKs, editors, Claude Code and Codex can
use Copilot's models. The page at the printed URL has an example for each.

A model such as gpt-5 has the caller's tools only. agent/gpt-5 is Copilot's agent in the
workspace, under the policy; it may only read, unless --read-write is given or a policy
that you trust allows more. The workspace's tools are also served over JSON-RPC on a
WebSocket; see copilot-bridge rpc --help.

Only this machine can connect, unless --addr is given, which needs a token. Prefer
COPILOT_BRIDGE_TOKEN to --token, which other users can see. Without a token only your own
programs and root's are served; where connections cannot be traced to a user (macOS,
Windows), a token is created in serve.token in the bridge's home.

Requests are logged to standard error, without their content; --log-level warning turns
that off. With --json standard output carries one line when the server is ready,
{"url":…,"rpc":…,"token":true|false,"pid":…}, and --log-level info turns the log on.

With --detach the server runs in the background: the command returns when it answers.
See copilot-bridge ps, logs and stop, and copilot-bridge service for one that starts with
your login.

On SIGTERM or Ctrl-C running requests have serve.drain_timeout (30s) to finish. A second
signal ends the program at once.`,
		Example: `  copilot-bridge serve
  copilot-bridge serve --workspace ~/src/app --read-write
  copilot-bridge serve --detach
  copilot-bridge serve --port 0 --json
  COPILOT_BRIDGE_TOKEN=… copilot-bridge serve --addr 0.0.0.0
  curl http://127.0.0.1:8788/v1/models`,
		PreRun: func(*cobra.Command, []string) {
			if !p.json && o.host == "" {
				p.defaultLevel = slog.LevelInfo // a line for each request
			}
			p.err.Failed = func(error) {} // a server continues though its log cannot be written
		},
	}, func(ctx context.Context, c call) error { return p.serve(ctx, c, o) })
	f := flagsOf(cmd)
	f.setting("serve.addr", "addr", "`ADDRESS` to listen on (default 127.0.0.1)")
	f.setting("serve.port", "port", "`PORT` to listen on; 0 picks a free one and remembers it (default 8788)")
	f.IntVar(&o.rpcPort, "rpc-port", -1, "`PORT` for the tool bus alone; 0 picks a free one (default: with the rest, at /rpc)")
	f.Lookup("rpc-port").DefValue = "0" // the help would name -1
	f.complete("rpc-port", cobra.NoFileCompletions)
	f.setting("serve.token", "token", "`TOKEN` that clients must present")
	f.StringArrayVarP(&o.workspaces, "workspace", "w", nil, "`DIR` that agent/… models work in (default: the current directory)")
	must(cmd.MarkFlagDirname("workspace"))
	f.StringVar(&o.host, "host", "", "`EDITOR` that has started this program and whose models answer: vscode")
	f.complete("host", fixedCompletions([]string{hostVSCode}))
	p.modelFlag(f, "`MODEL` to use for unknown model names, where the configuration says so")
	f.BoolVar(&o.readWrite, "read-write", false, "let agent/… models write in the workspace")
	f.BoolVarP(&o.detach, "detach", "d", false, "return when the server answers, and let it run in the background")
	f.StringVar(&o.log, "log", "", "")
	must(f.MarkHidden("log")) // for --detach and for services
	f.demo()
	f.json("write a line of JSON when ready")
	return cmd
}

func (p *program) serve(ctx context.Context, c call, o *serveOptions) error {
	if o.rpcPort < -1 || o.rpcPort > 65535 {
		return usage(c.cmd, "--rpc-port=%d: must be a port number from 0 to 65535", o.rpcPort)
	}
	if o.host != "" {
		return p.serveWindow(ctx, c, o)
	}
	if len(o.workspaces) > 1 {
		return usage(c.cmd, "--workspace can be given once only, except with --host")
	}
	dir, err := p.directory(strings.Join(o.workspaces, ""), "--workspace")
	if err != nil {
		return err
	}
	if o.detach {
		return p.serveDetached(ctx, c, dir)
	}
	cfg, err := p.prepareServer(ctx, c)
	if err != nil {
		return err
	}
	k := p.keyboard()
	defer k.Close()
	serving := o.serving()
	serving.Workspace, serving.Asker = dir, k.Asker(nil)
	for again := false; ; {
		err := p.serveUntilLogin(ctx, cfg, serving, o.log, again)
		if again = errors.Is(err, errLoggedIn); !again {
			return err
		}
	}
}

// errLoggedIn ends a server whose answers are the demo model's because nobody
// was logged in.
var errLoggedIn = errors.New("somebody has logged in")

// serveUntilLogin serves until ctx ends, or with errLoggedIn. Everything is made
// anew then, at the same address: too much depends on who answers. again says
// that this has happened.
func (p *program) serveUntilLogin(ctx context.Context, cfg *config.Config, o app.Serving, log string, again bool) error {
	opts := p.options(cfg)
	opts.Patient, opts.Workspace = true, o.Workspace // requests and /healthz tell
	b, err := p.start(ctx, opts)
	if err != nil {
		return err
	}
	defer p.close(ctx, b)
	s, err := b.Listen(ctx, o)
	if err != nil {
		return p.portTaken(cfg, err)
	}
	serving, leave := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if b.AccountAppears(serving) {
			leave(errLoggedIn)
		}
	})
	unregister := func() error { return nil }
	err = s.Serve(serving, func() {
		unregister = p.registerServe(cfg, serves.Serve{URL: s.URL(), RPC: s.RPC(), Workspace: o.Workspace, ReadOnly: s.ReadOnly(), Token: cfg.Serve.Token != "", Log: log})
		if again {
			p.console.Line("somebody has logged in; answers: " + b.Answers.Detail)
			return
		}
		p.announce(b, s, o.Workspace, cfg.Serve.Token != "")
	})
	leave(nil)
	watch.Wait()
	if err := unregister(); err != nil {
		p.log.Warn("serve.not_unregistered", "error", err)
	}
	if ctx.Err() == nil && errors.Is(context.Cause(serving), errLoggedIn) {
		err = errors.Join(err, errLoggedIn)
	}
	return err
}

// registerServe makes the server known to other commands, and names those that serve
// the same workspace already. A server works without it.
func (p *program) registerServe(cfg *config.Config, s serves.Serve) (leave func() error) {
	s.Since, s.Version = time.Now().UTC(), buildVersion()
	running, err := serves.List(cfg.Home)
	if err == nil {
		leave, err = serves.Register(cfg.Home, s)
	}
	if err != nil {
		p.log.Warn("serve.not_registered: ps and stop do not find it", "error", err)
		return func() error { return nil }
	}
	for _, other := range serves.In(running, s.Workspace) {
		if p.json {
			p.log.Warn("serve.workspace_shared", "url", other.URL, "pid", other.PID)
			continue
		}
		p.console.Alert(fmt.Sprintf("%s is served at %s too, by process %d: that works, and `copilot-bridge ps` lists both.", p.short(s.Workspace), other.URL, other.PID))
	}
	return leave
}

// portTaken adds to an error about a port which server has it, if it is ours.
func (p *program) portTaken(cfg *config.Config, err error) error {
	list, listErr := serves.List(cfg.Home)
	i := slices.IndexFunc(list, func(s serves.Serve) bool { return s.Port() == cfg.Serve.Port })
	if bridge.CodeOf(err) != bridge.CodeConflict || listErr != nil || i < 0 {
		return err
	}
	s := list[i]
	return &bridge.Error{Code: bridge.CodeConflict, Message: fmt.Sprintf("port %d is in use by another copilot-bridge, process %d, which serves %s", s.Port(), s.PID, p.short(s.Workspace)),
		Remedy: fmt.Sprintf("use it at %s, stop it with `copilot-bridge stop %d`, or choose another port with --port; --port 0 picks a free one", s.URL, s.PID)}
}

// prepareServer readies for a server: its running requests may finish when it is told to
// end, and clients need a token where other users of this machine could connect.
func (p *program) prepareServer(ctx context.Context, c call) (*config.Config, error) {
	c.in.drain.Store(int64(c.cfg.Serve.DrainTimeout))
	with, err := app.WithToken(ctx, c.cfg)
	if err == nil && with != c.cfg {
		p.scrub.Learn(with.Secrets())
		p.console.Dim("clients need the token in " + app.TokenFile(c.cfg))
	}
	return with, err
}

// serving is what the flags ask for.
func (o *serveOptions) serving() app.Serving {
	s := app.Serving{ReadWrite: o.readWrite}
	if o.rpcPort >= 0 {
		s.RPCPort = &o.rpcPort
	}
	return s
}

// readyLine is what a server writes as JSON when requests are answered.
type readyLine struct {
	URL   string `json:"url"`
	RPC   string `json:"rpc,omitempty"`
	Token bool   `json:"token"`
	PID   int    `json:"pid"`
	// What is wrong, if Copilot cannot answer yet.
	Copilot string `json:"copilot,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func (p *program) ready(line readyLine) {
	line.PID = os.Getpid()
	if err := p.printJSON(line); err != nil {
		p.log.Warn("serve.ready_line_not_written", "error", err)
	}
}

// announce says that requests are answered.
func (p *program) announce(b *app.Bridge, s *app.Server, dir string, token bool) {
	copilot, reason := s.Copilot(context.Background())
	if p.json {
		p.ready(readyLine{URL: s.URL(), RPC: s.RPC(), Token: token, Copilot: copilot, Reason: reason})
		return
	}
	mode := "read-write"
	if s.ReadOnly() {
		mode = "read-only"
	}
	if reason == "" {
		p.console.Ready(s.URL())
	} else {
		p.console.Listening(s.URL())
	}
	fields := view.Fields([2]string{"answers", b.Answering()}, [2]string{"set by", b.Answers.SetBy}, [2]string{"workspace", p.short(dir) + ", " + mode},
		[2]string{"tool bus", s.RPC()}, [2]string{"dashboard", "copilot-bridge dashboard   (Ctrl-C to stop)"})
	for line := range strings.Lines(fields) {
		p.console.Dim("  " + strings.TrimSuffix(line, "\n"))
	}
	if reason != "" {
		p.console.Warn("Copilot cannot answer yet: " + reason)
	}
	p.notice(b.Answers)
}

// hostVSCode is the one editor that can be a host.
const hostVSCode = "vscode"

// serveWindow serves inside an editor's window: standard input and output are
// the extension's, and their end is the ordinary end.
func (p *program) serveWindow(ctx context.Context, c call, o *serveOptions) (err error) {
	cfg := c.cfg
	switch {
	case o.host != hostVSCode:
		return usage(c.cmd, "--host=%s: must be %s", o.host, hostVSCode)
	case p.json || o.detach || c.cmd.Flags().Changed("demo"):
		return usage(c.cmd, "--json, --detach and --demo do not go with --host")
	case cfg.Serve.Token == "":
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "a bridge in an editor needs a token, and none is set",
			Remedy: "the extension sets COPILOT_BRIDGE_TOKEN; start the bridge by “Bridge: Enable” in VS Code's command palette"}
	}
	if cfg.Origin("serve.port").Source == config.SourceDefault {
		cfg.Serve.Port = 0 // there may be several windows
	}
	// The protocol carries the user's documents, which nothing may rewrite.
	w, err := app.OpenWindow(ctx, p.env.Stdin, p.env.Stdout, buildVersion(), p.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var dirs []string
	for _, d := range o.workspaces {
		dir, err := p.directory(d, "--workspace")
		if err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	w.Open(dirs)
	ctx, leave := w.Attend(ctx)
	defer leave()
	opts := p.options(cfg)
	opts.Window = w
	b, err := p.start(ctx, opts)
	if err != nil {
		return err
	}
	defer p.close(ctx, b)
	s, err := b.Listen(ctx, o.serving())
	if err != nil {
		return err
	}
	return s.Serve(ctx, func() { p.log.Info("serve.ready", "url", s.URL(), "rpc", s.RPC()) })
}
