package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/capabilities/probe"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

const probeServer = "probe-server"

func (p *program) capabilitiesProbeCommand() *cobra.Command {
	var asJSON bool
	var write string
	var names []cobra.Completion
	for _, x := range probe.All() {
		names = append(names, x.ID)
	}
	cmd := &cobra.Command{
		Use:   "probe [PROBE…]",
		Short: "Try out what the runtime's documentation leaves open",
		Long: `Drive the real runtime, with the rehearsal model for the words, through what its schemas do
not tell: what happens when nobody answers, what survives a resume, what a shared home does.
What is seen is compared with what is on record; exit code 1 if it differs. Nothing leaves
this machine, and nothing that is started stays. All of them take about two minutes.`,
		Example: `  copilot-bridge capabilities probe
  copilot-bridge capabilities probe shared-home resume --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, a := range args {
				if !slices.Contains(names, a) {
					return usage(cmd, "there is no probe %q", a)
				}
			}
			return p.runProbes(cmd.Context(), args, write, asJSON)
		},
		ValidArgs: names,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write each finding as a JSON line")
	cmd.Flags().StringVar(&write, "write", "", "put what is seen on record in `FILE`")
	p.must(cmd.Flags().MarkHidden("write"))
	return cmd
}

// capabilitiesServerCommand is the tool server that the probes give to the
// runtime.
func (p *program) capabilitiesServerCommand() *cobra.Command {
	return &cobra.Command{Use: probeServer, Hidden: true, Short: "Serve one tool over MCP on standard streams, for the probes",
		Example: "  copilot-bridge capabilities probe-server", Args: takes(cobra.NoArgs, "no arguments"),
		RunE: func(*cobra.Command, []string) error { return probe.ServeMCP(p.env.Stdin, p.env.Stdout) }}
}

func (p *program) runProbes(ctx context.Context, only []string, write string, asJSON bool) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	record, err := capabilities.Recorded()
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(ctx)
	defer in.stop()
	rt, err := p.ensureRuntime(ctx, cfg)
	if err != nil {
		return err
	}
	o := probe.Options{Runtime: rt.Path, Self: p.env.Executable, Server: []string{p.env.Executable, "capabilities", probeServer}, Env: p.env.Environ}
	fresh := &capabilities.Record{Date: time.Now().UTC().Format(time.DateOnly), Runtime: copilotruntime.RuntimeVersion, SDK: readVersion().SDK,
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	different := 0
	for _, x := range probe.All() {
		if len(only) > 0 && !slices.Contains(only, x.ID) {
			continue
		}
		p.console.show([]liveLine{{"… " + x.ID, p.console.style.dim}})
		f, err := x.Run(ctx, o)
		p.console.show(nil)
		if err != nil {
			return &bridge.Error{Code: bridge.CodeOf(err), Message: "the probe " + x.ID + " could not be finished", Cause: err}
		}
		fresh.Findings = append(fresh.Findings, f)
		was, _ := record.Finding(x.ID)
		changed := was.Differences(f)
		different += len(changed)
		if err := p.showFinding(f, changed, asJSON); err != nil {
			return err
		}
	}
	if write != "" {
		return writeRecord(write, fresh)
	}
	if different > 0 {
		return &exitError{code: exitFailed, told: asJSON, err: &bridge.Error{Code: bridge.CodeConflict,
			Message: fmt.Sprintf("the runtime does not behave as is on record: %s", plural(different, "difference")),
			Remedy:  "read the answers in docs/copilot-capabilities.md again, and put it on record with `make probe`"}}
	}
	return nil
}

func (p *program) showFinding(f capabilities.Finding, changed []string, asJSON bool) error {
	if asJSON {
		return p.printJSON(map[string]any{"type": "finding", "probe": f.Probe, "facts": f.Facts, "differences": append([]string{}, changed...)})
	}
	text := "✓ " + f.Probe + "\n"
	if len(changed) > 0 {
		text = "✗ " + f.Probe + "\n"
	}
	for _, x := range f.Facts {
		text += "    " + harmless(x.What) + ": " + harmless(x.Seen) + "\n"
	}
	for _, c := range changed {
		text += "  ≠ " + harmless(c) + "\n"
	}
	return p.print(text)
}

func writeRecord(path string, r *capabilities.Record) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}
