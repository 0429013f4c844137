package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// rpcOptions are the flags of rpc.
type rpcOptions struct {
	url, token string
	window     int
	json       bool
}

func (p *program) rpcCommand() *cobra.Command {
	o := &rpcOptions{}
	cmd := &cobra.Command{
		Use:   "rpc METHOD [JSON]",
		Short: "Call a method of a running bridge's tool bus",
		Long: `Call a method of the tool bus of a running ` + "`copilot-bridge serve`" + `: read, list and search
files, apply patches, format, run tasks, all under its policy. JSON are the
parameters, an object by name or an array by position; - reads them from standard
input. The method rpc.discover describes them all.

The result goes to standard output, the output of what runs to standard error as it
comes. A task that fails, or a diff that does not fit, is a result like any other.

What the policy wants consent for is asked about in the terminal, if there is one and
the bridge has a token: without one, any program on this machine could consent.

Without --url, a bridge in an editor's window in which the present directory is open
is used, with its token; else the one of this configuration is looked for on this
machine. If that has a token: set COPILOT_BRIDGE_TOKEN rather than --token, which
other users may see.

` + exitHelp,
		Example: `  copilot-bridge rpc mcp.fs.read '{"path":"README.md","limit":20}'
  copilot-bridge rpc mcp.search.code '{"query":"TODO","glob":"*.go"}' --json | jq '.hits[].file'
  copilot-bridge rpc mcp.task.run '["make:test"]'
  jq -Rs '{unifiedDiff: .}' fix.diff | copilot-bridge rpc mcp.edit.applyPatch -
  copilot-bridge rpc rpc.discover --url http://127.0.0.1:8788`,
		Args:              takes(cobra.RangeArgs(1, 2), "a method and its parameters as JSON"),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.runRPC(cmd, o, args) },
		ValidArgsFunction: completeMethods,
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "`URL` of the bridge, such as http://127.0.0.1:8788")
	f.StringVar(&o.token, "token", "", "`TOKEN` of the bridge")
	f.IntVar(&o.window, "window", 0, "`PID` of the bridge in an editor's window")
	f.BoolVar(&o.json, "json", false, "write the result as one line of JSON")
	p.must(cmd.RegisterFlagCompletionFunc("window", cobra.NoFileCompletions))
	p.must(cmd.RegisterFlagCompletionFunc("url", cobra.NoFileCompletions))
	p.must(cmd.RegisterFlagCompletionFunc("token", cobra.NoFileCompletions))
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

func (p *program) runRPC(cmd *cobra.Command, o *rpcOptions, args []string) error {
	if o.url != "" && o.window != 0 {
		return usage(cmd, "--url and --window exclude each other")
	}
	params, err := p.rpcParams(cmd, args[1:])
	if err != nil {
		return err
	}
	flags := map[string]string{}
	if o.token != "" {
		flags["serve.token"] = o.token
	}
	cfg, err := p.load(flags)
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	var who approval.Asker
	if !o.json && p.hasKeyboard() {
		k := p.openKeyboard()
		defer k.close()
		who = asker{keyboard: k}
	}
	client, err := app.ToolBus(ctx, cfg, app.Address{URL: o.url, Window: o.window, Dir: p.env.Dir}, who)
	if err != nil {
		return err
	}
	defer client.Close()
	result, err := client.Call(ctx, args[0], params, func(_, text string) {
		_, _ = io.WriteString(p.err, harmless(text)) // a failure is noticed by the stream
	})
	if err != nil {
		return &exitError{code: exitCode(err), err: quietIfCanceled(err)}
	}
	if o.json {
		return p.printJSON(result)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, result, "", "  "); err != nil {
		return fmt.Errorf("the tool bus answered with what is not JSON: %w", err)
	}
	text := pretty.String() + "\n"
	if p.console.outTTY {
		text = harmless(text)
	}
	return p.print(text)
}

// maxParams is what a tool bus takes.
const maxParams = 8 << 20

// rpcParams reads the parameters; what is wrong with their contents is for the
// bridge to say.
func (p *program) rpcParams(cmd *cobra.Command, args []string) (any, error) {
	if len(args) == 0 {
		return nil, nil // a method may need none
	}
	text := []byte(args[0])
	if args[0] == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(p.env.Stdin, maxParams+1)); err != nil {
			return nil, fmt.Errorf("read the parameters from standard input: %w", err)
		}
		if len(text) > maxParams {
			return nil, usage(cmd, "the parameters on standard input are longer than %d MiB", maxParams>>20)
		}
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	if !json.Valid(text) || text[0] != '{' && text[0] != '[' {
		return nil, usage(cmd, "the parameters are not a JSON object or array")
	}
	return json.RawMessage(text), nil
}
