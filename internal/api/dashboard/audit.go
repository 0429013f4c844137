package dashboard

import (
	"io"
	"net/http"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
)

// AuditPage is a part of the audit log, the newest entry first. Entries are as
// `copilot-bridge audit tail --json` writes them.
type AuditPage struct {
	Entries []audit.Entry `json:"entries"`
	// More says that older entries were not searched; Before is where to continue.
	// A search stops after a short time, so Entries may be empty although More is set.
	More   bool   `json:"more"`
	Before uint64 `json:"before,omitempty"`
}

// AuditReport is the result of verifying the audit log.
type AuditReport struct {
	OK bool `json:"ok"`
	audit.Report
	At time.Time `json:"at"`
}

const (
	auditEntries = 100 // on a page, unless told
	maxEntries   = 500
	searchFor    = 2 * time.Second
)

// audit is GET /audit.
func (a *API) audit(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	before, err := number(q, "before", 0, 1<<63)
	if err != nil {
		return nil, err
	}
	limit, err := number(q, "limit", auditEntries, maxEntries)
	if err != nil {
		return nil, err
	}
	found, err := a.opts.Records.Audit(r.Context(), audit.Query{Text: q.Get("q"), Verdict: q.Get("verdict"), Session: q.Get("session"), Tool: q.Get("tool"),
		Before: before, Limit: int(limit), Within: searchFor})
	return AuditPage{Entries: found.Entries, More: found.Before > 0, Before: found.Before}, err
}

// verifyAudit is POST /audit/verify. It ends with its request.
func (a *API) verifyAudit(w http.ResponseWriter, r *http.Request) (any, error) {
	// The server notices that the client has left only when the body was read.
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return nil, invalid("the body of the request cannot be read", "Send {}.")
	}
	report, err := a.opts.Records.VerifyAudit(r.Context())
	if report.Problems == nil {
		report.Problems = []audit.Problem{}
	}
	return AuditReport{OK: report.OK(), Report: report, At: time.Now().UTC()}, err
}
