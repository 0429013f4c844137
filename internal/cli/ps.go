package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
)

func (p *program) psCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use:   "ps",
		Short: "List the running servers",
		Long: `List the servers of this user that "copilot-bridge serve" has started: where they answer and
for which workspace. Those that VS Code has started are not among them.`,
		Example: `  copilot-bridge ps
  copilot-bridge ps --json | jq -r '.[].url'`,
	}, func(_ context.Context, c call) error {
		list, err := serves.List(c.cfg.Home)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			p.console.Dim("no server is running; start one with: copilot-bridge serve --detach")
			list = []serves.Serve{}
		}
		return p.show(list, p.serveTable(list))
	})
	flagsOf(cmd).json("write JSON")
	return cmd
}

// serveTable shows servers to people.
func (p *program) serveTable(list []serves.Serve) string {
	if len(list) == 0 {
		return ""
	}
	rows := [][]string{{"PID", "ADDRESS", "SINCE", "VERSION", "MAY", "WORKSPACE"}}
	for _, s := range list {
		may := "write"
		if s.ReadOnly {
			may = "read"
		}
		rows = append(rows, []string{strconv.Itoa(s.PID), s.URL, view.Age(time.Since(s.Since)), s.Version, may, p.short(s.Workspace)})
	}
	return view.Table(rows, 0)
}
