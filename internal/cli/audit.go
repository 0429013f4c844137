package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
)

// readsAudit is what is shown while the log is read, which may be long.
const readsAudit = "reading the audit log"

func (p *program) auditCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "audit",
		Short: "Show and verify the audit log",
		Example: `  copilot-bridge audit tail --follow
  copilot-bridge audit verify
  copilot-bridge audit prune --older-than 365d`,
	}, p.auditTailCommand(), p.auditVerifyCommand(), p.auditPruneCommand())
}

func (p *program) auditTailCommand() *cobra.Command {
	var lines int
	var follow bool
	cmd := p.command(&cobra.Command{
		Use:   "tail",
		Short: "Show the last entries",
		Long: `Show the last entries of the audit log: prompts, tool calls, permissions and results, with
the decision and its reason. Secrets are redacted. In a pipe each entry is one line; on a
terminal it is shorter, with what it is about below. --json has all of it.`,
		Example: `  copilot-bridge audit tail
  copilot-bridge audit tail -n 100 --json | jq 'select(.decision=="deny")'
  copilot-bridge audit tail --follow`,
	}, func(ctx context.Context, c call) error {
		if lines < 0 {
			return usage(c.cmd, "-n must not be negative")
		}
		return p.auditTail(ctx, c.cfg.AuditLogDir, lines, follow)
	})
	f := flagsOf(cmd)
	f.IntVarP(&lines, "lines", "n", 20, "how many entries")
	f.BoolVarP(&follow, "follow", "f", false, "keep showing new entries, until Ctrl-C")
	f.json("write the entries as JSON lines")
	return cmd
}

func (p *program) auditVerifyCommand() *cobra.Command {
	var expect string
	cmd := p.command(&cobra.Command{
		Use:   "verify [FILE...]",
		Short: "Verify the audit log",
		Long: `Verify that no entry of the audit log was changed, removed or moved. Each entry holds the
hash of the one before. The last hash is printed: keep it elsewhere, and check it later
with --expect. The log's length is also kept in a second file, the witness, so that a
missing log is noticed. To start a new log, remove both.

The log is split into segments. Each begins with a summary of the one before, so the
oldest may be moved away or deleted: missing segments are named, and the rest still
verifies. A FILE that was moved away is verified by itself; its end is taken from the next
segment, beside it or in the log.

Exit code 1 if something is wrong.`,
		Example: `  copilot-bridge audit verify
  copilot-bridge audit verify --expect 3f1c…
  copilot-bridge audit verify /archive/audit-2026-03-*.jsonl`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}, func(ctx context.Context, c call) error {
		if len(c.args) > 0 {
			return p.auditVerifyFiles(ctx, c, expect)
		}
		return p.auditVerify(ctx, c.cfg, expect)
	})
	f := flagsOf(cmd)
	f.StringVar(&expect, "expect", "", "a `HASH` that must be in the chain")
	f.json("write the report as JSON")
	return cmd
}

func (p *program) auditPruneCommand() *cobra.Command {
	var olderThan string
	var dryRun bool
	cmd := p.command(&cobra.Command{
		Use:   "prune --older-than AGE",
		Short: "Delete old segments of the audit log",
		Long: `Delete closed segments of the audit log whose entries are all older than AGE, oldest first,
after verifying them. The deletion is recorded; the rest still verifies. The setting
audit_keep_days does this automatically.`,
		Example: `  copilot-bridge audit prune --older-than 365d --dry-run
  copilot-bridge audit prune --older-than 365d`,
	}, func(ctx context.Context, c call) error {
		age, err := parseAge(olderThan)
		if err != nil {
			return usage(c.cmd, "--older-than takes an age such as 365d or 48h")
		}
		return p.auditPrune(ctx, c.cfg, time.Now().Add(-age), dryRun)
	})
	f := flagsOf(cmd)
	f.StringVar(&olderThan, "older-than", "", "the `AGE` of the last entry of a segment, such as 365d or 48h")
	f.BoolVar(&dryRun, "dry-run", false, "show what would be deleted")
	f.json("write what was deleted as JSON")
	return cmd
}

func (p *program) auditPrune(ctx context.Context, cfg *config.Config, before time.Time, dryRun bool) (err error) {
	var old audit.Old
	done := "would be deleted"
	stop := p.progress().Begin(readsAudit)
	if dryRun {
		old, err = audit.OlderThan(ctx, cfg.AuditLogDir, before)
	} else {
		done = "deleted"
		old, err = app.PruneAudit(ctx, cfg, p.env.HomeDir, before)
	}
	stop()
	if err != nil {
		return err
	}
	text := "No closed segment of the audit log is that old.\n"
	if len(old.Files) > 0 {
		text = fmt.Sprintf("  %s\n%s %s: entries %d to %d, the last of %s, %d bytes\n", strings.Join(old.Files, "\n  "),
			plural(len(old.Files), "segment"), done, old.First, old.Last, old.To.UTC().Format(time.DateOnly), old.Bytes)
	}
	return p.show(old, text)
}

// auditVerifyFiles verifies segments that were moved away, each by itself.
func (p *program) auditVerifyFiles(ctx context.Context, c call, expect string) error {
	wrong := 0
	for _, path := range c.args {
		stop := p.progress().Begin(readsAudit)
		r, err := audit.VerifyFile(ctx, path, c.cfg.AuditLogDir, expect)
		stop()
		if err != nil {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: "cannot read " + path, Cause: pathCause(err),
				Remedy: "Name a file of an audit log, such as audit-2026-03-01.jsonl."}
		}
		if !r.OK() {
			wrong++
		}
		if err := p.show(r, fileReport(path, r)); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return &bridge.Error{Code: bridge.CodeConflict, Message: fmt.Sprintf("%d of %s: not what was written", wrong, plural(len(c.args), "segment")),
			Remedy: "Look at the places named, and at who can write there."}
	}
	return nil
}

func fileReport(path string, r audit.Report) string {
	var b strings.Builder
	problems(&b, r)
	if r.OK() {
		writeln(&b, "✓ "+approval.Visible(path)+": "+wholeEntries(r))
	}
	if by := r.ClosedBy; by != nil {
		writeln(&b, fmt.Sprintf("  closed by the summary in entry %d in %s", by.Seq, approval.Visible(by.Path)))
	} else {
		writeln(&b, "  nothing here proves where it ends: no segment that closes it is beside it or in the log; --expect takes its last hash")
	}
	writeln(&b, "  last hash: "+r.Head)
	return b.String()
}

func (p *program) auditTail(ctx context.Context, dir string, n int, follow bool) error {
	format := audit.Format
	if p.console.OutTTY {
		format = audit.Brief
	}
	show := func(e audit.Entry) error { return p.show(e, view.Harmless(format(e))+"\n") }
	entries, err := audit.Tail(ctx, dir, n)
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
		if len(entries) == 0 && !p.json {
			return p.print("The audit log in " + dir + " is empty.\n")
		}
		return nil
	}
	for e, err := range audit.Follow(ctx, dir, last+1) {
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

func (p *program) auditVerify(ctx context.Context, cfg *config.Config, expect string) error {
	witness, err := app.AuditWitness(cfg, p.env.HomeDir)
	if err != nil {
		return err
	}
	stop := p.progress().Begin(readsAudit)
	r, err := audit.Verify(ctx, cfg.AuditLogDir, expect, witness)
	stop()
	if err != nil && (bridge.CodeOf(err) != bridge.CodeNotFound || expect != "") { // there may never have been a log
		return err
	}
	if err := p.show(r, logReport(cfg.AuditLogDir, r)); err != nil || r.OK() {
		return err
	}
	return &bridge.Error{Code: bridge.CodeConflict,
		Message: fmt.Sprintf("the audit log in %s is not what was written: %s", cfg.AuditLogDir, plural(len(r.Problems), "problem")),
		Remedy: "look at the places named, and at who can write there; if you removed the log or its witness yourself, remove " + witness +
			" and the rest of the log too, and a new one begins"}
}

func logReport(dir string, r audit.Report) string {
	var b strings.Builder
	problems(&b, r)
	switch {
	case r.OK() && r.Files == 0:
		writeln(&b, "✓ nothing has ever been recorded in "+approval.Visible(dir))
	case r.OK():
		writeln(&b, "✓ "+wholeEntries(r))
	}
	if r.Gone != nil {
		writeln(&b, "  "+approval.Visible(r.Gone.String()))
	}
	if r.Unwitnessed {
		writeln(&b, "  nothing outside the log witnesses where it ends, since it was begun without a witness; the next entry makes one")
	}
	if r.Head != "" {
		writeln(&b, "  last hash: "+r.Head)
	}
	return b.String()
}

func problems(b *strings.Builder, r audit.Report) {
	for _, problem := range r.Problems {
		writeln(b, "✗ "+approval.Visible(problem.String()))
	}
}

func wholeEntries(r audit.Report) string {
	if r.Entries == 1 {
		return "1 entry is whole and in order"
	}
	return fmt.Sprintf("%d entries are whole and in order", r.Entries)
}
