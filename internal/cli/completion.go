package cli

import (
	"bytes"
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
)

// bashHelpers do for cobra's script what it would take from the bash-completion package.
//
//go:embed completion.bash
var bashHelpers string

// addCompletion adds cobra's command, which refuses other shells here, and whose
// script for bash works without the bash-completion package.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	c, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	group(c)
	c.Example = "  source <(copilot-bridge completion bash)\n  copilot-bridge completion fish > ~/.config/fish/completions/copilot-bridge.fish"
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil {
		return
	}
	bash.Long = `Generate the autocompletion script for bash. The packages install it. It works with and
without the bash-completion package.

To have it in every new shell, add the example's line to ~/.bashrc.`
	bash.Example = "  source <(copilot-bridge completion bash)"
	bash.RunE = func(cmd *cobra.Command, _ []string) error {
		plain, err := cmd.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		var script bytes.Buffer
		if err := root.GenBashCompletionV2(&script, !plain); err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write([]byte(bashHelpers + strings.NewReplacer(
			`_get_comp_words_by_ref "$@" cur prev words cword`, "__copilot-bridge_words", "_filedir", "__copilot-bridge_filedir").Replace(script.String())))
		return err
	}
}
