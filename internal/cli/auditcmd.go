package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
)

func (p *program) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read the record of what was decided, and prove that it is whole",
		Example: `  copilot-bridge audit tail --follow
  copilot-bridge audit verify`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var lines int
	var follow, tailJSON, verifyJSON bool
	var expect string
	tail := &cobra.Command{
		Use:   "tail",
		Short: "Show the last entries",
		Long:  "Show the last entries of the audit log, one line each: every prompt, tool call, permission and\nresult, with the decision and its reason. Secrets are hidden before anything is written.",
		Example: `  copilot-bridge audit tail
  copilot-bridge audit tail -n 100 --json | jq 'select(.decision=="deny")'
  copilot-bridge audit tail --follow`,
		Args: takes(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lines < 0 {
				return usage(cmd, "-n must not be negative")
			}
			return p.runAuditTail(cmd.Context(), lines, follow, tailJSON)
		},
	}
	tail.Flags().IntVarP(&lines, "lines", "n", 20, "how many entries")
	tail.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added, until Ctrl-C")
	tail.Flags().BoolVar(&tailJSON, "json", false, "write the entries as JSON lines")
	verify := &cobra.Command{
		Use:   "verify",
		Short: "Prove that no entry was changed, removed or moved",
		Long: `Prove that no entry of the audit log was changed, removed or moved. Each entry holds
the hash of the one before it. The last hash is printed: keep it elsewhere and give it
with --expect later to prove that the end was not cut off and everything rewritten.
How far the log has come is also kept outside its directory, in its witness, so that a
log that is gone is missed; and entries say so, so that a witness that is gone is too. To begin a new one on purpose, remove both.

Exit code 1 if something is wrong, with the place.`,
		Example: `  copilot-bridge audit verify
  copilot-bridge audit verify --expect 3f1c…`,
		Args: takes(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runAuditVerify(cmd.Context(), expect, verifyJSON) },
	}
	verify.Flags().StringVar(&expect, "expect", "", "a `HASH` that must be in the chain")
	verify.Flags().BoolVar(&verifyJSON, "json", false, "write the report as JSON")
	cmd.AddCommand(tail, verify)
	return cmd
}

func (p *program) runAuditTail(ctx context.Context, n int, follow, asJSON bool) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	show := func(e audit.Entry) error {
		if asJSON {
			return p.printJSON(e)
		}
		return p.print(approval.Visible(audit.Format(e)) + "\n")
	}
	entries, err := audit.Tail(ctx, cfg.AuditLogDir, n)
	if err != nil {
		return err
	}
	var last uint64
	for _, e := range entries {
		last = e.Seq
		if err := show(e); err != nil {
			return err
		}
	}
	if !follow {
		if len(entries) == 0 && !asJSON {
			return p.print("The audit log in " + cfg.AuditLogDir + " is empty.\n")
		}
		return nil
	}
	ctx, in := p.interruptible(ctx)
	defer in.stop()
	for e, err := range audit.Follow(ctx, cfg.AuditLogDir, last+1) {
		if errors.Is(err, context.Canceled) {
			return nil // Ctrl-C is how it ends
		}
		if err != nil {
			return err
		}
		if err := show(e); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) runAuditVerify(ctx context.Context, expect string, asJSON bool) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	witness, err := app.AuditWitness(cfg, p.env.HomeDir)
	if err != nil {
		return err
	}
	r, err := audit.VerifyWitnessed(ctx, cfg.AuditLogDir, expect, witness)
	if bridge.CodeOf(err) == bridge.CodeNotFound && expect == "" {
		err = nil // nor is it known that there ever was one
	}
	if err != nil {
		return err
	}
	if asJSON {
		if err := p.printJSON(r); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		for _, problem := range r.Problems {
			writeln(&b, "✗ "+approval.Visible(problem.String()))
		}
		switch {
		case r.OK() && r.Files == 0:
			writeln(&b, "✓ nothing has ever been recorded in "+approval.Visible(cfg.AuditLogDir))
		case r.OK():
			writeln(&b, fmt.Sprintf("✓ %d entries are whole and in order", r.Entries))
		}
		if r.Unwitnessed {
			writeln(&b, "  nothing outside the log witnesses where it ends, since it was begun without a witness; the next entry makes one")
		}
		if r.Head != "" {
			writeln(&b, "  last hash: "+r.Head)
		}
		if err := p.print(b.String()); err != nil {
			return err
		}
	}
	if !r.OK() {
		return &bridge.Error{Code: bridge.CodeConflict, Message: fmt.Sprintf("the audit log in %s is not what was written: %d problems", cfg.AuditLogDir, len(r.Problems)),
			Remedy: "look at the places named, and at who can write there; if you removed the log or its witness yourself, remove " + witness + " and the rest of the log too, and a new one begins"}
	}
	return nil
}

// writeln writes to a buffer, which cannot fail.
func writeln(w io.StringWriter, line string) { _, _ = w.WriteString(line + "\n") }
