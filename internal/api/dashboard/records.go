package dashboard

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// Records supplies the views besides sessions and questions: usage, policy, audit log,
// orchestrations and health. Its methods are called concurrently.
type Records interface {
	// Usage is what turns have used since the day of a time.
	Usage(since time.Time) ([]usagelog.Record, error)
	// Policy is the policy in force in a directory; "" means the server's.
	Policy(ctx context.Context, dir string) (Policy, error)
	// TestPolicy says what would happen to a call. Nothing is run or recorded.
	TestPolicy(ctx context.Context, dir string, call PolicyCall) (PolicyVerdict, error)
	Audit(ctx context.Context, q audit.Query) (audit.Found, error)
	VerifyAudit(ctx context.Context) (audit.Report, error)
	// Runs are the newest runs of orchestrate, newest first. It is cheap while
	// nothing changes.
	Runs(limit int) ([]Run, error)
	Run(id string) (RunDetail, error)
	// RunDiff is what a task has changed, at most so many bytes of it.
	RunDiff(ctx context.Context, run, task string, limit int) (RunDiff, error)
	Health(ctx context.Context) Health
}

// recordRoutes is the part of the table of routes that reads records.
func (a *API) recordRoutes() []route {
	if a.opts.Records == nil {
		return nil
	}
	return []route{
		{pattern: "GET /usage", answer: a.usage},
		{pattern: "GET /policy", answer: a.policy},
		{pattern: "POST /policy/test", answer: a.testPolicy},
		{pattern: "GET /audit", answer: a.audit},
		{pattern: "POST /audit/verify", answer: a.verifyAudit},
		{pattern: "GET /runs", answer: a.runs},
		{pattern: "GET /runs/{id}", answer: a.run},
		{pattern: "GET /runs/{id}/tasks/{task}/diff", answer: a.runDiff},
		{pattern: "GET /health", answer: a.health},
	}
}

// number reads a number of a query: fallback if it is not given, most at most.
func number(q url.Values, name string, fallback, most uint64) (uint64, error) {
	text := q.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, invalid(name+" is not a number", "Write it in digits, such as "+name+"=50.")
	}
	return min(n, most), nil
}
