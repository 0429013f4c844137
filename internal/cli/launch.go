package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/launch"
	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
)

func (p *program) launchCommand() *cobra.Command {
	var list strings.Builder
	var names []string
	for _, c := range launch.Clients() {
		fmt.Fprintf(&list, "  %-9s %-12s %s\n", c.Name, c.Title, c.Install)
		names = append(names, c.Name)
	}
	printOnly := false
	cmd := p.command(&cobra.Command{
		Use:   "launch CLIENT [ARGUMENTS]",
		Short: "Start a coding agent on Copilot's models",
		Long: `Start a coding agent that is installed on this machine, with its own tools and Copilot's
models. It talks to the serve of yours that is running or, if there is none, to one that
starts and ends with it. Your settings of the agent stay as they are: variables and arguments
tell it where the bridge is, for this run only.

Flags of launch go before the client's name; everything after it is the client's, except for
--print alone. Signals and the exit code are passed on. The clients, and how they are installed:

` + list.String(),
		Example: `  copilot-bridge launch claude
  copilot-bridge launch claude -p "create hello.txt saying hi" --permission-mode acceptEdits
  copilot-bridge launch --model gpt-5 codex exec "create hello.txt saying hi"
  copilot-bridge launch --print opencode`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(cmd, "say which client to start: %s", strings.Join(names, ", "))
			}
			_, err := launch.Find(args[0])
			return err
		},
		ValidArgs: names,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		PreRun: func(*cobra.Command, []string) { p.defaultLevel = slog.LevelError + 1 }, // the terminal is the client's
	}, func(ctx context.Context, c call) error { return p.launch(ctx, c, printOnly) })
	f := flagsOf(cmd)
	f.SetInterspersed(false)
	p.modelFlag(f, "`MODEL` to use (default: the configured one, or one that suits the client)")
	f.BoolVar(&printOnly, "print", false, "only show what would be set, as lines for a shell, for a serve that is running")
	f.demo()
	return cmd
}

func (p *program) launch(ctx context.Context, c call, printOnly bool) (err error) {
	client, err := launch.Find(c.args[0])
	if err != nil {
		return err
	}
	args := c.args[1:]
	if slices.Equal(args, []string{"--print"}) {
		printOnly, args = true, nil
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if _, err := programs.Find(client.Name, p.env.Environ); err != nil && !printOnly {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("%s is not installed: there is no program %s on the PATH", client.Title, client.Name),
			Remedy: "install it: " + client.Install}
	}
	var at launch.Server
	var who launch.Answers
	found := false
	if !c.cmd.Flags().Changed("demo") { // that asks for a bridge of its own
		at, who, found = launch.Running(ctx, p.serveURLs(c.cfg), string(c.cfg.Serve.Token))
	}
	switch {
	case found:
	case printOnly:
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "no serve of yours is running, so there is no address to print", Remedy: "start `copilot-bridge serve` in another terminal"}
	default:
		var end func() error
		if at, who, end, err = p.serveClient(ctx, c.cfg); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	asked, configured := "", cmp.Or(c.cfg.BYOK.Model, c.cfg.Model)
	if c.cmd.Flags().Changed("model") {
		asked = c.cfg.Model
	}
	model, err := at.Model(ctx, client, asked, configured)
	if err != nil {
		return err
	}
	setup := client.SetUp(at, model)
	if printOnly {
		return p.print(client.Script(setup, `"$COPILOT_BRIDGE_TOKEN"`, args))
	}
	p.console.Dim(fmt.Sprintf("copilot-bridge · %s · %s · %s", who.Detail, model.ID, client.Title))
	if who.Notice != "" {
		p.console.Alert(who.Notice)
	}
	return p.runClient(ctx, c.in, client, setup, args)
}

// serveURLs are the addresses of the running servers, those of this directory first,
// and where one would be found that is not listed.
func (p *program) serveURLs(cfg *config.Config) (urls []string) {
	list, _ := serves.List(cfg.Home) // without it there are the usual addresses
	for _, s := range slices.Concat(serves.In(list, p.env.Dir), list) {
		urls = append(urls, s.URL)
	}
	for _, u := range app.ServeURLs(cfg) {
		if !slices.Contains(urls, u) {
			urls = append(urls, u)
		}
	}
	return urls
}

// serveClient serves on a free port until end is called, with a token of its own.
func (p *program) serveClient(ctx context.Context, cfg *config.Config) (at launch.Server, who launch.Answers, end func() error, err error) {
	own := *cfg
	own.Serve = config.Serve{Addr: "127.0.0.1", Token: config.Secret(rand.Text())}
	p.scrub.Learn(own.Secrets())
	b, err := p.start(ctx, p.options(&own))
	if err != nil {
		return at, who, nil, err
	}
	s, err := b.Listen(ctx, app.Serving{Workspace: p.env.Dir, Private: true, Asker: approval.Nobody{}})
	if err != nil {
		p.close(ctx, b)
		return at, who, nil, err
	}
	// It outlives the signal that ends the client.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- s.Serve(serving, func() { close(ready) }) }()
	end = func() error {
		stop()
		err := <-ended
		p.close(context.WithoutCancel(ctx), b)
		return err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return at, who, nil, errors.Join(context.Cause(ctx), end())
	}
	return launch.Server{URL: s.URL(), Token: string(own.Serve.Token), Own: true}, launch.Answers{Detail: b.Answers.Detail, Notice: b.Answers.Notice}, end, nil
}

// runClient runs a client to its end, with the terminal and the signals.
func (p *program) runClient(ctx context.Context, in *interruption, client launch.Client, setup launch.Setup, args []string) (err error) {
	env := slices.DeleteFunc(slices.Clone(p.env.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(setup.Unset, name)
	})
	for _, v := range setup.Set {
		env = append(env, v.Name+"="+v.Value)
	}
	if setup.File != "" {
		dir, remove, err2 := durable.Scratch("launch")
		if err2 != nil {
			return err2
		}
		defer func() { err = errors.Join(err, remove()) }()
		file := filepath.Join(dir, client.Name+".json")
		if err := os.WriteFile(file, []byte(setup.File), 0o600); err != nil {
			return err
		}
		env = append(env, setup.FileVariable+"="+file)
	}
	cmd, err := programs.New(programs.Place{Dir: p.env.Dir, Env: env}, client.Name, append(setup.Args, args...)...)
	if err != nil {
		return err
	}
	stdin, _ := p.env.Stdin.(*os.File)
	stdout, _ := p.env.Stdout.(*os.File)
	stderr, _ := p.env.Stderr.(*os.File)
	running, err := cmd.StartForeground(programs.Streams{In: stdin, Out: stdout, Err: stderr})
	if err != nil {
		return err
	}
	relay := func(s os.Signal) {
		if s == os.Interrupt && p.env.IsTerminal(p.env.Stdin) {
			return // the terminal has sent it to the client too
		}
		running.Signal(s)
	}
	in.relay.Store(&relay)
	defer in.relay.Store(nil)
	if ctx.Err() != nil { // a signal that came before there was anybody to pass it on to
		running.Signal(os.Interrupt)
	}
	exit, err := running.Wait()
	if err != nil || exit.Code == 0 {
		return err
	}
	return &exitError{code: exit.Code}
}
