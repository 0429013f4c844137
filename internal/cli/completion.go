package cli

import (
	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// The completion command itself is cobra's.

func fixedCompletions(values []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// completeSessions offers the ids of stored sessions, with their titles.
// Nothing is started for it, and whatever is wrong gives no completions.
func (p *program) completeSessions(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	cfg, err := p.loadQuietly(nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	entries, err := app.Store(cfg).List(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := make([]cobra.Completion, 0, len(entries))
	for _, e := range entries {
		out = append(out, cobra.CompletionWithDesc(e.ID, approval.Visible(e.Title)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
