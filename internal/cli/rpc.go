package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// rpcOptions are the flags of rpc.
type rpcOptions struct {
	url    string
	window int
}

func (p *program) rpcCommand() *cobra.Command {
	o := &rpcOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "rpc METHOD [JSON]",
		Short: "Call a method of a running bridge's tool bus",
		Long: `Call a method of the tool bus of a running "copilot-bridge serve": read, list and search
files, apply patches, format, run tasks. JSON holds the parameters as an object or array;
- reads them from standard input. rpc.discover describes all methods.

The result goes to standard output. Output of tasks goes to standard error as it comes. A
failed task or a patch that does not apply is a result, not an error.

If the policy needs consent and the bridge has a token, you are asked in the terminal.

Without --url the bridge of the editor window that has the current directory open is
called, or else the one of this configuration. Prefer COPILOT_BRIDGE_TOKEN to --token, which
other users can see.`,
		Example: `  copilot-bridge rpc mcp.fs.read '{"path":"README.md","limit":20}'
  copilot-bridge rpc mcp.search.code '{"query":"TODO","glob":"*.go"}' --json | jq '.hits[].file'
  copilot-bridge rpc mcp.task.run '["make:test"]'
  jq -Rs '{unifiedDiff: .}' fix.diff | copilot-bridge rpc mcp.edit.applyPatch -
  copilot-bridge rpc rpc.discover --url http://127.0.0.1:8788`,
		Args:              takes(cobra.RangeArgs(1, 2), "a method and its parameters as JSON"),
		ValidArgsFunction: completeMethods,
	}, func(ctx context.Context, c call) error { return p.rpc(ctx, c, o) })
	f := flagsOf(cmd)
	f.text(&o.url, "url", "", "`URL` of the bridge, such as http://127.0.0.1:8788")
	f.setting("serve.token", "token", "", "`TOKEN` of the bridge")
	f.IntVar(&o.window, "window", 0, "`PID` of the bridge in an editor's window")
	f.complete("window", cobra.NoFileCompletions)
	f.json("write the result as one line of JSON")
	return cmd
}

func completeMethods(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if len(args) == 0 {
		for _, m := range app.ToolBusMethods() {
			if !strings.HasPrefix(m[0], "$") { // of use only within a connection
				names = append(names, cobra.CompletionWithDesc(m[0], m[1]))
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (p *program) rpc(ctx context.Context, c call, o *rpcOptions) error {
	if o.url != "" && o.window != 0 {
		return usage(c.cmd, "--url and --window exclude each other")
	}
	params, err := p.rpcParams(c)
	if err != nil {
		return err
	}
	var who approval.Asker
	if k := p.keyboard(); k != nil {
		defer k.Close()
		who = k.Asker(nil)
	}
	client, err := app.ToolBus(ctx, c.cfg, app.Address{URL: o.url, Window: o.window, Dir: p.env.Dir}, who)
	if err != nil {
		return err
	}
	defer client.Close()
	result, err := client.Call(ctx, c.args[0], params, func(_, text string) {
		_, _ = io.WriteString(p.err, view.Harmless(text)) // a failure is noticed by the stream
	})
	switch {
	case bridge.CodeOf(err) == bridge.CodeCanceled:
		return ended(err)
	case err != nil:
		return err
	case p.json:
		return p.printJSON(result)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, result, "", "  "); err != nil {
		return fmt.Errorf("the tool bus answered with what is not JSON: %w", err)
	}
	text := pretty.String() + "\n"
	if p.console.OutTTY {
		text = view.Harmless(text)
	}
	return p.print(text)
}

// maxParams is what a tool bus takes.
const maxParams = 8 << 20

// rpcParams reads the parameters. Their contents are checked by the bridge.
func (p *program) rpcParams(c call) (params any, err error) {
	if len(c.args) < 2 {
		return nil, nil // a method may need none
	}
	text := []byte(c.args[1])
	if c.args[1] == "-" {
		if text, err = p.readStdin("JSON", maxParams); err != nil {
			return nil, err
		}
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	if !json.Valid(text) || text[0] != '{' && text[0] != '[' {
		return nil, usage(c.cmd, "the parameters are not a JSON object or array")
	}
	return json.RawMessage(text), nil
}
