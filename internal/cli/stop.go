package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
)

func (p *program) stopCommand() *cobra.Command {
	var all bool
	cmd := p.command(&cobra.Command{
		Use:   "stop [SERVER]",
		Short: "Stop a running server",
		Long: `Stop the server that is running. Where there are several, SERVER says which, by its
process id, its port or its workspace; see copilot-bridge ps. Running requests have
serve.drain_timeout (30s) to finish.`,
		Example: `  copilot-bridge stop
  copilot-bridge stop 8788
  copilot-bridge stop --all`,
		Args:              takes(cobra.MaximumNArgs(1), "one server at most"),
		ValidArgsFunction: p.completeServers,
	}, func(ctx context.Context, c call) error {
		list, err := serves.List(c.cfg.Home)
		if err != nil {
			return err
		}
		if !all || len(c.args) > 0 {
			s, err := p.pickServer(list, c)
			if err != nil {
				return err
			}
			list = []serves.Serve{s}
		}
		return p.stopServers(ctx, c.cfg, list)
	})
	flagsOf(cmd).BoolVar(&all, "all", false, "stop all servers")
	return cmd
}

// stopServers asks servers to end, and waits for them.
func (p *program) stopServers(ctx context.Context, cfg *config.Config, list []serves.Serve) error {
	for _, s := range list {
		if err := s.Terminate(); err != nil && s.Alive() {
			return &bridge.Error{Code: bridge.CodeUnavailable, Message: fmt.Sprintf("process %d cannot be stopped", s.PID), Remedy: "end it by the means of the system", Cause: err}
		}
	}
	// What runs below a server has some seconds after the requests.
	limit := cfg.Serve.DrainTimeout + 20*time.Second
	for _, s := range list {
		if !s.Wait(ctx, limit) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("process %d was asked to stop and still runs after %s", s.PID, limit),
				Remedy: fmt.Sprintf("see its log with `copilot-bridge logs %d`, or end it at once with `kill -9 %[1]d`", s.PID)}
		}
		if err := p.print(fmt.Sprintf("stopped %s (process %d, %s)\n", s.URL, s.PID, p.short(s.Workspace))); err != nil {
			return err
		}
	}
	return nil
}

// pickServer finds the server that the argument means, or the only one.
func (p *program) pickServer(list []serves.Serve, c call) (serves.Serve, error) {
	if len(list) == 0 {
		return serves.Serve{}, &bridge.Error{Code: bridge.CodeNotFound, Message: "no server is running", Remedy: "start one with `copilot-bridge serve --detach`"}
	}
	fits, which := list, "which server is meant"
	if len(c.args) > 0 {
		number, _ := strconv.Atoi(c.args[0])        // 0 is no process and no port of a server
		dir, err := filepath.Abs(p.path(c.args[0])) // it fails where there is no current directory
		fits = slices.DeleteFunc(slices.Clone(list), func(s serves.Serve) bool {
			return number == 0 && (err != nil || s.Workspace != dir) || number != 0 && s.PID != number && s.Port() != number
		})
		which = fmt.Sprintf("which server is meant by %q", c.args[0])
	}
	switch {
	case len(fits) == 1:
		return fits[0], nil
	case len(fits) == 0:
		return serves.Serve{}, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("no running server has the process id, the port or the workspace %q", c.args[0]), Remedy: "`copilot-bridge ps` lists those that run"}
	}
	return serves.Serve{}, usage(c.cmd, "%s? There are %d:\n%s", which, len(fits), strings.TrimSuffix(p.serveTable(fits), "\n"))
}

// completeServers offers the process ids of servers.
func (p *program) completeServers(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completions(func(_ context.Context, cfg *config.Config) (out []cobra.Completion, err error) {
		list, err := serves.List(cfg.Home)
		for _, s := range list {
			out = append(out, cobra.CompletionWithDesc(strconv.Itoa(s.PID), s.URL+" "+p.short(s.Workspace)))
		}
		return out, err
	})(cmd, args, typed)
}
