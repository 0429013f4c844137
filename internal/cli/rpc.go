package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// rpcOptions are the flags of rpc.
type rpcOptions struct {
	url     string
	window  int
	runtime bool
	session string
}

func (p *program) rpcCommand() *cobra.Command {
	o := &rpcOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "rpc METHOD [JSON]",
		Short: "Call a method of a running bridge's tool bus, or of Copilot's runtime",
		Long: `Call a method of the tool bus of a running "copilot-bridge serve": read, list and search
files, apply patches, format, run tasks. JSON holds the parameters as an object or array;
- reads them from standard input. rpc.discover describes all methods.

The result goes to standard output. Output of tasks goes to standard error as it comes. A
failed task or a patch that does not apply is a result, not an error.

If the policy needs consent and the bridge has a token, you are asked in the terminal.

Without --url the bridge of the editor window that has the current directory open is
called, or else the one of this configuration. Prefer COPILOT_BRIDGE_TOKEN to --token, which
other users can see.

With --runtime a method of Copilot's runtime is called instead, in a session of its own in
the current directory or in that of --session. It is judged as a tool named
runtime/METHOD: what only reads or changes the session is allowed, for the rest you are
asked, and methods that would bypass the guard are refused. The audit log has every call.
"copilot-bridge capabilities" lists the methods.`,
		Example: `  copilot-bridge rpc mcp.fs.read '{"path":"README.md","limit":20}'
  copilot-bridge rpc mcp.search.code '{"query":"TODO","glob":"*.go"}' --json | jq '.hits[].file'
  copilot-bridge rpc mcp.task.run '["make:test"]'
  jq -Rs '{unifiedDiff: .}' fix.diff | copilot-bridge rpc mcp.edit.applyPatch -
  copilot-bridge rpc rpc.discover --url http://127.0.0.1:8788
  copilot-bridge rpc --runtime session.name.set '{"name":"the parser"}' --session last
  copilot-bridge rpc --runtime session.shell.executeUserRequested '{"command":"make test","requestId":"1"}'`,
		Args: takes(cobra.RangeArgs(1, 2), "a method and its parameters as JSON"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if o.runtime {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeMethods(cmd, args, typed)
		},
	}, func(ctx context.Context, c call) error { return p.rpc(ctx, c, o) })
	f := flagsOf(cmd)
	f.text(&o.url, "url", "`URL` of the bridge, such as http://127.0.0.1:8788")
	f.setting("serve.token", "token", "`TOKEN` of the bridge")
	f.IntVar(&o.window, "window", 0, "`PID` of the bridge in an editor's window")
	f.complete("window", cobra.NoFileCompletions)
	f.BoolVar(&o.runtime, "runtime", false, "call Copilot's runtime, not a tool bus")
	f.StringVar(&o.session, "session", "", "with --runtime: the session `ID`, or \"last\"")
	f.complete("session", p.completeSessions)
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
	if o.runtime && (o.url != "" || o.window != 0) || !o.runtime && o.session != "" {
		return usage(c.cmd, "--runtime calls a runtime of this command, so it goes without --url and --window; --session needs it")
	}
	params, err := p.rpcParams(c)
	if err != nil {
		return err
	}
	if o.runtime {
		result, err := p.callRuntime(ctx, c, o.session, params)
		if err != nil {
			return ended(err)
		}
		return p.printResult(result)
	}
	var who approval.Asker
	if k := p.keyboard(); k != nil {
		defer k.Close()
		who = k.Asker(nil)
	}
	found := p.progress().Begin("looking for the bridge")
	client, err := app.ToolBus(ctx, c.cfg, app.Address{URL: o.url, Window: o.window, Dir: p.env.Dir}, who)
	found()
	if err != nil {
		return err
	}
	defer client.Close()
	var sent any // nothing at all, rather than null
	if params != nil {
		sent = params
	}
	stop := p.progress().Begin("waiting for the bridge, which may ask for consent where it was started")
	defer stop()
	result, err := client.Call(ctx, c.args[0], sent, func(_, text string) {
		stop()
		_, _ = io.WriteString(p.err, view.Harmless(text)) // a failure is noticed by the stream
	})
	stop()
	switch {
	case bridge.CodeOf(err) == bridge.CodeCanceled:
		return ended(err)
	case err != nil:
		return err
	}
	return p.printResult(result)
}

// callRuntime calls a method of the runtime in a session, or in one that is
// removed afterwards.
func (p *program) callRuntime(ctx context.Context, c call, id string, params json.RawMessage) (result json.RawMessage, err error) {
	t, err := p.newTalk(ctx, c.cfg, talkOptions{resume: id})
	if err != nil {
		return nil, err
	}
	defer t.close(ctx)
	t.request.Keep = id != ""
	open, leave := t.bridge.Engine.Open, (*engine.Session).Discard
	if id != "" {
		open = func(ctx context.Context, r engine.Request) (*engine.Session, error) {
			return t.bridge.Engine.Resume(ctx, t.opts.resume, r)
		}
		leave = (*engine.Session).Close
	}
	defer p.progress().Begin("waiting for the runtime")()
	s, err := open(ctx, t.request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave(s, context.WithoutCancel(ctx))) }()
	result, err = s.Call(ctx, c.args[0], params)
	if e := bridge.AsError(err); e != nil && e.Code == bridge.CodeDenied && e.Remedy == "" {
		refused := *e
		refused.Remedy = "`copilot-bridge capabilities` marks the methods that may be called"
		return nil, &refused
	}
	return result, err
}

// printResult writes the result of a call.
func (p *program) printResult(result json.RawMessage) error {
	if p.json {
		return p.printJSON(result)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, result, "", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	text := pretty.String() + "\n"
	if p.console.OutTTY {
		text = view.Harmless(text)
	}
	_, err := io.WriteString(p.out, text)
	return err
}

// maxParams is what a tool bus takes.
const maxParams = 8 << 20

// rpcParams reads the parameters. Their contents are checked by the bridge.
func (p *program) rpcParams(c call) (params json.RawMessage, err error) {
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
