package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

func (p *program) sessionsResumeCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "resume ID [PROMPT…]",
		Short: "Resume a session",
		Long: `Resume a session. "last" is the session used last. With PROMPT this is "run --resume"; without,
on a terminal, "chat --resume".`,
		Example: `  copilot-bridge sessions resume last
  copilot-bridge sessions resume 41bd9d7b
  copilot-bridge sessions resume 41bd9d7b "and now in French"`,
		Args: takes(cobra.MinimumNArgs(1), "a session's id and a prompt"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.resume = args[0]
			if len(args) > 1 {
				o.task = strings.Join(args[1:], " ")
				return p.runRun(cmd, o)
			}
			if p.json || !p.hasKeyboard() {
				return usage(cmd, "without a terminal a prompt is needed")
			}
			return p.runChat(cmd, o)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return p.completeSessions(cmd, args, typed)
		},
	}
	f := flagsOf(cmd)
	f.dir(&o.dir, "cwd", "C", "work in this `DIR` instead of the session's")
	p.modelFlag(f, "`MODEL` to use from now on")
	o.commonFlags(f)
	return cmd
}
