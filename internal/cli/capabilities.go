package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

type capabilitiesOptions struct {
	check    bool
	json     bool
	markdown bool
	runtime  string
	write    string
}

func (p *program) capabilitiesCommand() *cobra.Command {
	o := &capabilitiesOptions{}
	cmd := &cobra.Command{
		Use:   "capabilities",
		Short: "Say what Copilot's runtime offers, and what the bridge does with it",
		Long: `Say what the pinned Copilot runtime and its SDK offer (methods, events, permission kinds,
options), and what the bridge does with each: used, passed through, ignored on purpose, or
not yet.

The inventory is part of this program; it was made from the runtime's own schemas, the SDK's
code and the bridge's code. --check reads the schemas of the runtime that is installed and
exits with 1 if they, the SDK or the written document are not what the inventory was made
from. No Go toolchain is needed, except to make a new inventory (make generate).`,
		Example: `  copilot-bridge capabilities
  copilot-bridge capabilities --check
  copilot-bridge capabilities --json | jq '.marks | to_entries[] | select(.value.mark == "not yet") | .key'
  copilot-bridge capabilities diff ./old/copilot-sdk-linux-x64 ./new/copilot-sdk-linux-x64
  copilot-bridge capabilities probe`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runCapabilities(cmd.Context(), cmd, o) },
	}
	cmd.Flags().BoolVar(&o.check, "check", false, "compare the inventory with what is installed; exit code 1 if they differ")
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON")
	cmd.Flags().BoolVar(&o.markdown, "markdown", false, "write the whole document, as docs/copilot-capabilities.md has it")
	cmd.Flags().StringVar(&o.runtime, "runtime", "", "with --check: the `DIR` of a runtime's npm package, instead of the one that is used")
	cmd.Flags().StringVar(&o.write, "write", "", "write the document and the README's table into the repository in `DIR`")
	p.must(cmd.Flags().MarkHidden("write"))
	p.must(cmd.MarkFlagDirname("runtime"))
	cmd.AddCommand(p.capabilitiesDiffCommand(), p.capabilitiesProbeCommand(), p.capabilitiesServerCommand())
	return cmd
}

func (p *program) runCapabilities(ctx context.Context, cmd *cobra.Command, o *capabilitiesOptions) error {
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
		return usage(cmd, "--runtime goes with --check")
	case o.markdown && (o.json || o.check):
		return usage(cmd, "--markdown goes with neither --json nor --check")
	case o.write != "":
		return capabilities.Write(inv, record, o.write)
	case o.check:
		return p.checkCapabilities(ctx, inv, record, o)
	case o.markdown:
		return p.print(capabilities.Document(inv, record))
	case o.json:
		return p.printJSON(capabilities.NewReport(inv, record))
	}
	return p.print(capabilitiesText(inv))
}

// capabilitiesText is the short form for people.
func capabilitiesText(inv *capabilities.Inventory) string {
	var b strings.Builder
	writeln(&b, fmt.Sprintf("Copilot runtime %s, SDK %s, protocol %d", inv.Runtime.Version, inv.SDK.Version, inv.SDK.Protocol))
	writeln(&b, "")
	writeln(&b, fmt.Sprintf("%-44s %6s %6s %7s %8s %8s", "", "in all", "used", "passed", "ignored", "not yet"))
	for _, f := range inv.Figures() {
		writeln(&b, fmt.Sprintf("%-44s %6d %6d %7d %8d %8d", f.What, f.Total, f.Used, f.Passed, f.Ignored, f.NotYet))
	}
	writeln(&b, "")
	writeln(&b, "Each of them: copilot-bridge capabilities --markdown, or --json")
	return b.String()
}

// runtimePackage is the directory of the package to look at.
func (p *program) runtimePackage(ctx context.Context, cfg *config.Config, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	rt, err := p.ensureRuntime(ctx, cfg)
	if err != nil {
		return "", err
	}
	return capabilities.PackageOf(rt.Path)
}

func (p *program) ensureRuntime(ctx context.Context, cfg *config.Config) (copilotruntime.Runtime, error) {
	bar := newBar(p.console)
	defer bar.done()
	return copilotruntime.Ensure(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath}, bar.step)
}

func (p *program) checkCapabilities(ctx context.Context, inv *capabilities.Inventory, record *capabilities.Record, o *capabilitiesOptions) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(ctx)
	defer in.stop()
	dir, err := p.runtimePackage(ctx, cfg, o.runtime)
	if err != nil {
		return err
	}
	sdk := readVersion().SDK
	if sdk == "unknown" {
		sdk = "" // a build that does not say
	}
	different, err := capabilities.Check(inv, record, dir, sdk, copilotruntime.RuntimeVersion, p.env.Dir)
	if err != nil {
		return err
	}
	if o.json {
		if different == nil {
			different = []string{}
		}
		if err := p.printJSON(map[string]any{"ok": len(different) == 0, "differences": different, "figures": inv.Figures()}); err != nil {
			return err
		}
	} else {
		text := capabilitiesText(inv)
		for _, d := range different {
			text += "✗ " + harmless(d) + "\n"
		}
		if len(different) == 0 {
			text += "✓ the inventory is that of the runtime in " + dir + "\n"
		}
		if err := p.print(text); err != nil {
			return err
		}
	}
	if len(different) > 0 {
		return &exitError{code: exitFailed, told: o.json, err: &bridge.Error{Code: bridge.CodeConflict,
			Message: "the inventory of capabilities does not fit: " + plural(len(different), "difference"),
			Remedy:  "look at them, mark what is new in internal/capabilities, and run `make probe generate`"}}
	}
	return nil
}

func (p *program) capabilitiesDiffCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Tell two runtimes apart",
		Long: `Tell what a new version of the runtime brings, takes away and changes. OLD and NEW are each
the directory of a runtime's npm package (it has package.json and schemas/), or a file that
capabilities --json wrote.`,
		Example: `  npm pack @github/copilot-sdk-linux-x64@1.0.15 && tar xf github-copilot-sdk-linux-x64-1.0.15.tgz
  copilot-bridge capabilities --json > old.json
  copilot-bridge capabilities diff old.json ./package`,
		Args: takes(cobra.ExactArgs(2), "two runtimes"),
		RunE: func(_ *cobra.Command, args []string) error { return p.runCapabilitiesDiff(args[0], args[1], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func (p *program) runCapabilitiesDiff(before, after string, asJSON bool) error {
	was, err := capabilities.ReadAny(before)
	if err != nil {
		return err
	}
	is, err := capabilities.ReadAny(after)
	if err != nil {
		return err
	}
	changes := capabilities.Diff(was, is)
	if asJSON {
		if changes == nil {
			changes = []capabilities.Change{}
		}
		return p.printJSON(map[string]any{"old": was.Version, "new": is.Version, "changes": changes})
	}
	var b strings.Builder
	for _, c := range changes {
		sign := map[string]string{"added": "+", "removed": "−", "changed": "~"}[c.How]
		writeln(&b, fmt.Sprintf("%s %-20s %s", sign, c.What, harmless(c.Name)))
		for _, d := range c.Detail {
			writeln(&b, "    "+harmless(d))
		}
	}
	if len(changes) == 0 {
		writeln(&b, "They describe the same.")
	}
	return p.print(b.String())
}
