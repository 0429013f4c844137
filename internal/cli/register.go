package cli

import "github.com/spf13/cobra"

func (p *program) registerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "register",
		Short:   "Make this program known to another one",
		Long:    `Make this program known to another one. copilot-bridge unregister takes it back.`,
		Example: `  copilot-bridge register vscode`,
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.registerVSCodeCommand())
	return cmd
}

func (p *program) unregisterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "unregister",
		Short:   "Take back what register has done",
		Long:    `Take back what register has done, and nothing else.`,
		Example: `  copilot-bridge unregister vscode`,
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.unregisterVSCodeCommand())
	return cmd
}
