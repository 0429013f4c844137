package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
)

func (p *program) logsCommand() *cobra.Command {
	var lines int
	var follow bool
	cmd := p.command(&cobra.Command{
		Use:   "logs [SERVER]",
		Short: "Show the log of a server in the background",
		Long: `Show the log of a server that "copilot-bridge serve --detach" or a service has started.
SERVER is its process id, its port or its workspace, where several are running. If none is,
it is the log of the one that was started last.`,
		Example: `  copilot-bridge logs
  copilot-bridge logs -f
  copilot-bridge logs 8788 -n 1000`,
		Args:              takes(cobra.MaximumNArgs(1), "one server at most"),
		ValidArgsFunction: p.completeServers,
	}, func(ctx context.Context, c call) error {
		if lines < 0 {
			return usage(c.cmd, "--lines=%d: must be 0 or more", lines)
		}
		file, s, err := p.findLog(c)
		if err != nil {
			return err
		}
		return p.showLog(ctx, file, lines, follow, s)
	})
	f := flagsOf(cmd)
	f.IntVarP(&lines, "lines", "n", 100, "how many lines")
	f.complete("lines", cobra.NoFileCompletions)
	f.BoolVarP(&follow, "follow", "f", false, "keep showing new lines, until the server ends or Ctrl-C")
	return cmd
}

// findLog is the log of the server that is meant. The server is empty if it has ended.
func (p *program) findLog(c call) (string, serves.Serve, error) {
	list, err := serves.List(c.cfg.Home)
	if err != nil {
		return "", serves.Serve{}, err
	}
	if len(list) == 0 && len(c.args) == 0 {
		file, err := lastLog(c.cfg)
		return file, serves.Serve{}, err
	}
	s, err := p.pickServer(list, c)
	if err == nil && s.Log == "" {
		err = &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("process %d writes its log to the terminal in which it was started", s.PID),
			Remedy: "a server that is started with `copilot-bridge serve --detach` has a file for it"}
	}
	return s.Log, s, err
}

// lastLog is the log of the server that was started last.
func lastLog(cfg *config.Config) (string, error) {
	logs, err := serves.Logs(cfg.Home)
	if err == nil && len(logs) == 0 {
		err = &bridge.Error{Code: bridge.CodeNotFound, Message: "no server has left a log", Remedy: "start one with `copilot-bridge serve --detach`"}
	}
	if err != nil {
		return "", err
	}
	return logs[len(logs)-1], nil
}

// showLog shows the end of a file, and what is added to it while its server lives.
func (p *program) showLog(ctx context.Context, file string, lines int, follow bool, s serves.Serve) (err error) {
	text, size, err := lastLines(file, lines)
	if err != nil {
		return err
	}
	if err := p.print(text); err != nil || !follow {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		return err
	}
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		lives := s.Alive() // before the look, which then sees its last words
		if _, err := io.Copy(p.out, f); err != nil {
			return err
		}
		if !lives {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil // Ctrl-C is how it ends
		}
	}
}
