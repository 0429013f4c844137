package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

func (p *program) policyCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "policy",
		Short: "Show, change and try the rules for what Copilot may do",
		Example: `  copilot-bridge policy list
  copilot-bridge policy add shell.deny git push
  copilot-bridge policy test npm install`,
	}, p.policyListCommand(), p.policyAddCommand(), p.policyRemoveCommand(), p.policyTestCommand())
}

func (p *program) policyListCommand() *cobra.Command {
	dir := ""
	cmd := p.command(&cobra.Command{
		Use:   "list",
		Short: "List the rules in force in a directory, and their files",
		Example: `  copilot-bridge policy list
  copilot-bridge policy list --cwd ~/src/app`,
	}, func(_ context.Context, c call) error {
		at, err := p.directory(dir, "--cwd")
		if err != nil {
			return err
		}
		text, err := policyText(c.cfg.Home, at)
		if err != nil {
			return err
		}
		return p.print(text)
	})
	flagsOf(cmd).dir(&dir, "cwd", "C", "the rules of this `DIR` (default: the current directory)")
	return cmd
}

func (p *program) policyAddCommand() *cobra.Command {
	return p.ruleCommand(&cobra.Command{
		Use:   "add LIST RULE",
		Short: "Add a rule to your own policy file",
		Long: `Add a rule to your own policy file (policy.yaml in ~/.copilot-bridge), which holds in all
directories. It counts at once, also in sessions that are open; comments and order stay.`,
		Example: `  copilot-bridge policy add shell.deny git push
  copilot-bridge policy add reads.deny "**/.env"
  copilot-bridge policy add sandbox.shell npm install`,
	}, func(ctx context.Context, home string, a policy.Addition) error {
		if err := a.Check(); err != nil {
			return err
		}
		file, err := policy.Remember(ctx, home, a)
		if err != nil {
			return err
		}
		text := "✓ " + approval.Visible(a.String()) + " is in " + file + "\n"
		if a.Narrows() {
			text += "  What is not on " + a.List + " is denied from now on.\n"
		}
		return p.print(text)
	})
}

func (p *program) policyRemoveCommand() *cobra.Command {
	return p.ruleCommand(&cobra.Command{
		Use:   "remove LIST RULE",
		Short: "Remove a rule from your own policy file",
		Example: `  copilot-bridge policy list
  copilot-bridge policy remove shell.deny git push`,
	}, func(ctx context.Context, home string, a policy.Addition) error {
		file, found, err := policy.Forget(ctx, home, a)
		switch {
		case err != nil:
			return err
		case !found:
			return &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no rule " + approval.Visible(a.String()) + " in " + file, Remedy: "see `copilot-bridge policy list`"}
		}
		return p.print("✓ " + approval.Visible(a.String()) + " is no longer in " + file + "\n")
	})
}

// ruleCommand completes a command about one rule of a list.
func (p *program) ruleCommand(cmd *cobra.Command, do func(ctx context.Context, home string, a policy.Addition) error) *cobra.Command {
	cmd.Args = takes(cobra.MinimumNArgs(2), "a list and a rule")
	cmd.Flags().SetInterspersed(false) // what begins with a dash belongs to the rule
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return policy.ListNames(), cobra.ShellCompDirectiveNoFileComp
	}
	return p.command(cmd, func(ctx context.Context, c call) error {
		a := policy.Addition{List: c.args[0], Pattern: strings.Join(c.args[1:], " ")}
		if names := policy.ListNames(); !slices.Contains(names, a.List) {
			err := &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there is no list %q", a.List), Remedy: "the lists are " + strings.Join(names, ", ")}
			if near := text.Nearest(a.List, names); near != "" {
				err.Remedy = "did you mean " + near + "?"
			}
			return err
		}
		return do(ctx, c.cfg.Home, a)
	})
}

func (p *program) policyTestCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "test CALL",
		Short: "Say what would happen to a call, and by which rule",
		Long: `Say what would happen to a call of a tool, and by which rule of which file. Nothing is run,
asked or recorded. The defaults are those of "run"; serve is read-only.

CALL is a command line, or a tool with its path, address or arguments as JSON.`,
		Example: `  copilot-bridge policy test npm install
  copilot-bridge policy test view ../secret.txt
  copilot-bridge policy test web_fetch https://example.com
  copilot-bridge policy test 'create {"path":"AGENTS.md","file_text":"x"}'`,
		Args: takes(cobra.MinimumNArgs(1), "a call"),
	}
	p.command(cmd, func(ctx context.Context, c call) error {
		at, err := p.directory(dir, "--cwd")
		if err != nil {
			return err
		}
		called, err := app.ParseCall(strings.Join(c.args, " "))
		if err != nil {
			return err
		}
		out, confined, err := app.TestPolicy(ctx, p.options(c.cfg), at, called)
		if err != nil {
			return err
		}
		return p.show(map[string]any{"verdict": out.Verdict.String(), "reason": out.Reason, "rule": out.Rule.Key, "pattern": out.Rule.Pattern,
			"source": out.Rule.Source.String(), "sandboxed": confined}, outcomeText(out, confined))
	})
	f := flagsOf(cmd)
	f.SetInterspersed(false) // what begins with a dash belongs to the call
	f.dir(&dir, "cwd", "C", "as if it worked in this `DIR` (default: the current directory)")
	f.json("write JSON")
	return cmd
}

// outcomeText is a decision of the policy, in words.
func outcomeText(out policy.Outcome, confined bool) string {
	verdict := map[policy.Verdict]string{policy.Allow: "✓ it would run without a question", policy.Ask: "? it would be asked about", policy.Deny: "✗ it would be denied"}[out.Verdict]
	sandbox := "no"
	if confined {
		sandbox = "yes, where the tool runs a program"
	}
	var always []string
	for _, a := range out.Lasting {
		always = append(always, a.String())
	}
	rule := out.Rule.Key
	if out.Rule.Pattern != "" {
		rule += " " + out.Rule.Pattern
	}
	return verdict + "\n" + view.Fields([2]string{"  reason", out.Reason}, [2]string{"  rule", rule}, [2]string{"  from", cmp.Or(out.Rule.Source.String(), "built-in")},
		[2]string{"  in a sandbox", sandbox}, [2]string{"  always", strings.Join(always, ", ")})
}

// policyText are the rules in force in a directory, with the files that they
// come from.
func policyText(home, dir string) (string, error) {
	user, err := policy.LoadUser(home)
	if err != nil {
		return "", err
	}
	local, trusted, err := policy.LoadTrusted(home, dir)
	if err != nil {
		return "", err
	}
	text, rows := "", [][]string{{"LIST", "RULE", "FROM"}}
	for _, file := range []*policy.File{user, local} {
		if file == nil {
			continue
		}
		about := ""
		if file == local && !trusted {
			about = " (not trusted: only its restrictions count)"
		}
		text += file.Path + about + "\n"
		rows = append(rows, ruleRows(file)...)
	}
	if text == "" {
		return "No policy file is in force: the defaults decide.\n", nil
	}
	if len(rows) > 1 {
		text += "\n" + view.Table(rows, 0)
	}
	return text, nil
}

func ruleRows(file *policy.File) (rows [][]string) {
	if r := file.Rules; r.ReadOnly != nil {
		rows = append(rows, []string{"readOnly", fmt.Sprint(*r.ReadOnly), r.ReadOnlySource.String()})
	}
	for _, list := range slices.Sorted(maps.Keys(file.Rules.Lists)) {
		for _, r := range file.Rules.Lists[list] {
			rows = append(rows, []string{list, r.Pattern, r.Source.String()})
		}
	}
	return rows
}
