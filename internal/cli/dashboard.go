package cli

import (
	"context"
	"errors"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

func (p *program) dashboardCommand() *cobra.Command {
	var noOpen bool
	cmd := p.command(&cobra.Command{
		Use:   "dashboard [SERVER]",
		Short: "Open the dashboard in a browser",
		Long: `Open the dashboard of the running server in a browser: what all of your sessions do and have
done, whatever started them, with their open questions, which can be answered there.

The address that is printed logs one browser in. It is good once, for three minutes. Where
several servers run, it is the one of the current directory, or SERVER says which, by its
process id, its port or its workspace; see copilot-bridge ps.`,
		Example: `  copilot-bridge dashboard
  copilot-bridge dashboard --no-open
  copilot-bridge dashboard 8788 --json`,
		Args:              takes(cobra.MaximumNArgs(1), "one server at most"),
		ValidArgsFunction: p.completeServers,
	}, func(ctx context.Context, c call) error { return p.dashboard(ctx, c, noOpen) })
	f := flagsOf(cmd)
	f.BoolVar(&noOpen, "no-open", false, "print the address only")
	f.json("write JSON, and open nothing")
	return cmd
}

func (p *program) dashboard(ctx context.Context, c call, noOpen bool) error {
	if supervise.InTree() { // the login would answer the agent's own questions
		return &bridge.Error{Code: bridge.CodeDenied, Message: "an agent may have started this, so nobody is logged in to the dashboard", Remedy: "run it in a terminal of your own"}
	}
	list, err := serves.List(c.cfg.Home)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "no server is running, and it is the server that has the dashboard", Remedy: "start one with `copilot-bridge serve`"}
	}
	if dir, err := p.directory("", "--workspace"); err == nil && len(c.args) == 0 {
		if here := serves.In(list, dir); len(here) == 1 {
			list = here
		}
	}
	s, err := p.pickServer(list, c)
	if err != nil {
		return err
	}
	link, err := app.DashboardLink(ctx, c.cfg, s.URL)
	if err != nil {
		return err
	}
	if err := p.show(struct {
		URL string `json:"url"` // logs in
		PID int    `json:"pid"`
	}{link, s.PID}, link+"\n"); err != nil || p.json || noOpen {
		return err
	}
	p.console.Dim("It logs one browser in, within three minutes.")
	p.openBrowser(link)
	return nil
}

// openers are the programs that open an address with the user's browser.
var openers = map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}

// openBrowser opens an address where a person sits at this machine. The address was
// printed, so that a failure is only worth a word.
func (p *program) openBrowser(address string) {
	opener, known := openers[runtime.GOOS]
	here := p.env.get("SSH_CONNECTION") == ""
	if !known {
		opener, here = []string{"xdg-open"}, p.env.get("DISPLAY") != "" || p.env.get("WAYLAND_DISPLAY") != ""
	}
	if !here || !p.env.IsTerminal(p.env.Stdout) {
		return
	}
	if err := p.detach(opener[0], append(opener[1:], address)...); err != nil {
		p.console.Dim("No browser could be opened: " + err.Error())
	}
}

// detach starts a program that goes on by itself, and says nothing here.
func (p *program) detach(name string, args ...string) (err error) {
	cmd, err := programs.New(programs.Place{Env: p.env.Environ}, name, args...)
	if err != nil {
		return err
	}
	silence, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, silence.Close()) }()
	_, err = cmd.Detach(silence)
	return err
}
