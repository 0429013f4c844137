package copilotbridge

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Approval is a question that needs a person's consent. Show Title and Detail
// as they are: all characters are visible in them, secrets are hidden, and
// consent is for exactly this.
type Approval struct {
	Title  string // such as "Copilot wants to run: npm test"
	Detail string // what Title leaves out, often several lines
	// Request is the same for programs.
	Request bridge.PermissionRequest
}

// Consent is the answer to an Approval. The zero value denies.
type Consent int

// The answers.
const (
	Deny         Consent = iota
	AllowOnce            // this call
	AllowSession         // this, and the very same again in this session
)

// asker asks Options.Approve.
func (c *Client) asker() approval.Asker {
	if c.opts.Approve == nil {
		return approval.Nobody{}
	}
	return asker{c.opts.Approve}
}

type asker struct {
	approve func(context.Context, Approval) (Consent, error)
}

func (a asker) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	title, detail, err := q.Whole(approval.MaxShown)
	if err != nil {
		return approval.Answer{}, err
	}
	consent, err := a.approve(ctx, Approval{Title: title, Detail: detail, Request: q.Request})
	if err != nil {
		return approval.Answer{}, err
	}
	const by = "program"
	switch consent {
	case AllowOnce:
		return approval.Answer{Consent: approval.Once, By: by}, nil
	case AllowSession:
		return approval.Answer{Consent: approval.Session, By: by}, nil
	case Deny:
	}
	return approval.Answer{By: by}, nil
}
