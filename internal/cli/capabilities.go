package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

type capabilitiesOptions struct {
	check, markdown bool
	runtime         string
}

func (p *program) capabilitiesCommand() *cobra.Command {
	o := &capabilitiesOptions{}
	cmd := &cobra.Command{
		Use:   "capabilities",
		Short: "Show what Copilot's runtime offers and what the bridge uses",
		Long: `Show what the pinned Copilot runtime and its SDK offer (methods, events, permission kinds,
options), and what the bridge does with each: used, passed through, ignored on purpose, or
not yet.

--check compares this inventory with the installed runtime, the SDK and the written
document, and exits with 1 if they differ.`,
		Example: `  copilot-bridge capabilities
  copilot-bridge capabilities --check
  copilot-bridge capabilities --json | jq '.marks | to_entries[] | select(.value.mark == "not yet") | .key'
  copilot-bridge capabilities diff ./old/copilot-sdk-linux-x64 ./new/copilot-sdk-linux-x64`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runCapabilities(cmd, o) },
	}
	f := flagsOf(cmd)
	f.BoolVar(&o.check, "check", false, "compare the inventory with the installed runtime; exit code 1 if they differ")
	f.json("write JSON")
	f.BoolVar(&o.markdown, "markdown", false, "write the whole document, as docs/reference/capabilities.md has it")
	f.dir(&o.runtime, "runtime", "", "with --check: the `DIR` of a runtime's npm package, instead of the runtime in use")
	cmd.AddCommand(p.capabilitiesDiffCommand())
	return cmd
}

func (p *program) runCapabilities(cmd *cobra.Command, o *capabilitiesOptions) error {
	inv, err := capabilities.Pinned()
	if err != nil {
		return err
	}
	record, err := capabilities.Recorded()
	if err != nil {
		return err
	}
	switch {
	case o.runtime != "" && !o.check:
		return usage(cmd, "--runtime can be used only with --check")
	case o.markdown && (p.json || o.check):
		return usage(cmd, "--markdown cannot be combined with --json or --check")
	case o.check:
		return p.configured(cmd, nil, func(ctx context.Context, c call) error { return p.checkCapabilities(ctx, c, inv, record, o) })
	case o.markdown:
		text, err := capabilities.Document(inv, record)
		return errors.Join(err, p.print(text))
	}
	return p.show(capabilities.NewReport(inv, record), capabilitiesText(inv))
}

// capabilitiesText is the short form for people.
func capabilitiesText(inv *capabilities.Inventory) string {
	var b strings.Builder
	writeln(&b, fmt.Sprintf("Copilot runtime %s, SDK %s, protocol %d", inv.Runtime.Version, inv.SDK.Version, inv.SDK.Protocol))
	writeln(&b, "")
	writeln(&b, fmt.Sprintf("%-44s %6s %6s %7s %7s %8s %8s", "", "in all", "used", "passed", "direct", "ignored", "not yet"))
	for _, f := range inv.Figures() {
		writeln(&b, fmt.Sprintf("%-44s %6d %6d %7d %7d %8d %8d", f.What, f.Total, f.Used, f.Passed, f.Direct, f.Ignored, f.NotYet))
	}
	writeln(&b, "")
	writeln(&b, "For the whole list: copilot-bridge capabilities --markdown, or --json")
	return b.String()
}

func (p *program) checkCapabilities(ctx context.Context, c call, inv *capabilities.Inventory, record *capabilities.Record, o *capabilitiesOptions) error {
	dir := o.runtime
	if dir == "" {
		shows := p.progress()
		stop := shows.Begin("looking for the runtime")
		rt, err := copilotruntime.Ensure(ctx, copilotruntime.Options{Home: c.cfg.Home, CLIPath: c.cfg.CLIPath}, shows.Step)
		stop()
		if err != nil {
			return err
		}
		if dir, err = capabilities.PackageOf(rt.Path); err != nil {
			return err
		}
	}
	sdk := strings.TrimSuffix(readVersion().SDK, "unknown") // in a build that does not say
	different, err := capabilities.Check(inv, record, dir, sdk, copilotruntime.RuntimeVersion, p.env.Dir)
	if err != nil {
		return err
	}
	text := capabilitiesText(inv)
	for _, d := range different {
		text += "✗ " + view.Harmless(d) + "\n"
	}
	if len(different) == 0 {
		text += "✓ the inventory is that of the runtime in " + dir + "\n"
	}
	report := map[string]any{"ok": len(different) == 0, "differences": append([]string{}, different...), "figures": inv.Figures()}
	if len(different) > 0 {
		err = &bridge.Error{Code: bridge.CodeConflict, Message: "the inventory of capabilities is out of date: " + plural(len(different), "difference"),
			Remedy: "give reasons for new entries in internal/capabilities/reasons.txt, then run `make probe generate`"}
	}
	return p.showFailed(report, text, err)
}

func (p *program) capabilitiesDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two runtimes",
		Long: `Show what a new version of the runtime adds, removes and changes. OLD and NEW are each
the directory of a runtime's npm package (it has package.json and schemas/), or a file
written by capabilities --json.`,
		Example: `  npm pack @github/copilot-sdk-linux-x64@1.0.15 && tar xf github-copilot-sdk-linux-x64-1.0.15.tgz
  copilot-bridge capabilities --json > old.json
  copilot-bridge capabilities diff old.json ./package`,
		Args: takes(cobra.ExactArgs(2), "two runtimes"),
		RunE: func(_ *cobra.Command, args []string) error { return p.runCapabilitiesDiff(args[0], args[1]) },
	}
	flagsOf(cmd).json("write JSON")
	return cmd
}

func (p *program) runCapabilitiesDiff(before, after string) error {
	was, err := capabilities.ReadAny(before)
	if err != nil {
		return err
	}
	is, err := capabilities.ReadAny(after)
	if err != nil {
		return err
	}
	changes := capabilities.Diff(was, is)
	var b strings.Builder
	for _, c := range changes {
		sign := map[string]string{"added": "+", "removed": "−", "changed": "~"}[c.How]
		writeln(&b, fmt.Sprintf("%s %-20s %s", sign, c.What, view.Harmless(c.Name)))
		for _, d := range c.Detail {
			writeln(&b, "    "+view.Harmless(d))
		}
	}
	if len(changes) == 0 {
		writeln(&b, "They describe the same.")
	}
	report := map[string]any{"old": was.Version, "new": is.Version, "changes": append([]capabilities.Change{}, changes...)}
	return p.show(report, b.String())
}
