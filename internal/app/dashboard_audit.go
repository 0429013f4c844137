package app

import (
	"context"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
)

// verifyWithin bounds a verification on demand. It reads some 100 MB a second.
const verifyWithin = 5 * time.Minute

func (r *records) Audit(ctx context.Context, q audit.Query) (audit.Found, error) {
	return audit.Search(ctx, r.bridge.opts.Config.AuditLogDir, q)
}

// VerifyAudit verifies the log, as `audit verify` does, one time after another.
func (r *records) VerifyAudit(ctx context.Context) (audit.Report, error) {
	if !r.verifying.TryLock() {
		return audit.Report{}, &bridge.Error{Code: bridge.CodeBusy, Message: "the audit log is being verified already", Remedy: "wait for that to end"}
	}
	defer r.verifying.Unlock()
	o := r.bridge.opts
	witness, err := AuditWitness(o.Config, o.UserDir)
	if err != nil {
		return audit.Report{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, verifyWithin, &bridge.Error{Code: bridge.CodeTimeout, Message: "verifying the audit log took longer than " + verifyWithin.String(),
		Remedy: "run `copilot-bridge audit verify`"})
	defer cancel()
	report, err := audit.Verify(ctx, o.Config.AuditLogDir, "", witness)
	switch {
	case bridge.CodeOf(err) == bridge.CodeNotFound: // there has never been a log
		return report, nil
	case err != nil && ctx.Err() != nil:
		return report, context.Cause(ctx)
	}
	return report, err
}
