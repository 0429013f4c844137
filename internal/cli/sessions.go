package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

func (p *program) sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, show, resume and delete sessions",
		Example: `  copilot-bridge sessions list
  copilot-bridge sessions show 41bd9d7b
  copilot-bridge sessions resume 41bd9d7b
  copilot-bridge sessions delete 41bd9d7b`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.sessionsListCommand(), p.sessionsShowCommand(), p.sessionsResumeCommand(), p.sessionsDeleteCommand())
	return cmd
}

func (p *program) sessionsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the sessions that were kept, the newest first",
		Example: `  copilot-bridge sessions list
  copilot-bridge sessions list --json | jq -r '.[].id'`,
		Args: takes(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runSessionsList(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func (p *program) runSessionsList(ctx context.Context, asJSON bool) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	entries, err := app.Store(cfg).List(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return p.printJSON(entries)
	}
	if len(entries) == 0 {
		p.console.line("There are no sessions yet. Start one with: copilot-bridge run \"…\"")
		return nil
	}
	width := 0 // no limit in a pipe
	if p.console.outTTY && p.env.Width != nil {
		width = p.env.Width(p.env.Stdout)
	}
	return p.print(sessionTable(entries, time.Now(), p.env.HomeDir, width))
}

// sessionTable lists sessions; lines are cut to width unless that is 0.
func sessionTable(entries []sessionstore.Entry, now time.Time, home string, width int) string {
	short := idLength(entries)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row(w, "ID", "STATE", "AGE", "MODEL", "TURNS", "TOKENS", "DIRECTORY", "TITLE")
	for _, e := range entries {
		row(w, approval.Visible(e.ID[:min(short, len(e.ID))]), string(e.State), age(now.Sub(e.Updated)), orDash(approval.Visible(e.Model)),
			fmt.Sprint(e.Turns), fmt.Sprintf("%d/%d", e.InputTokens, e.OutputTokens),
			orDash(approval.Visible(shorten(e.WorkingDirectory, "", home))), approval.Visible(e.Title))
	}
	_ = w.Flush() // a buffer cannot fail
	if width <= 0 {
		return b.String()
	}
	var cut strings.Builder
	for line := range strings.Lines(b.String()) {
		cut.WriteString(fit(strings.TrimRight(line, "\n"), width) + "\n")
	}
	return cut.String()
}

// idLength is how much of the ids tells them apart, at least eight characters.
func idLength(entries []sessionstore.Entry) int {
	for n := 8; ; n++ {
		seen, longest, clash := map[string]bool{}, 0, false
		for _, e := range entries {
			id := e.ID[:min(n, len(e.ID))]
			clash = clash || seen[id]
			seen[id] = true
			longest = max(longest, len(e.ID))
		}
		if !clash || n >= longest {
			return n
		}
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// age is how long ago something was, in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
