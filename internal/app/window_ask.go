package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// dialog is the person at the window, who is asked one thing at a time.
type dialog struct {
	conn *editor.Conn
	turn chan struct{} // of one: held by the question that is shown
	most time.Duration
}

// Ask shows a modal dialog, or what is long in an editor of its own: the
// extension chooses. To close it, or to let the time pass, is a no.
func (d *dialog) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	lead, body, err := q.Whole(approval.MaxShown)
	if err != nil {
		return approval.No, err
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return approval.No, ctx.Err()
	}
	within := d.most
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline))
	}
	answers := map[string]approval.Answer{"once": approval.Once, "session": approval.Session}
	actions := []editor.Action{{ID: "once", Label: "Allow Once"}, {ID: "session", Label: "Allow for This Session"}, {ID: "no", Label: "Deny"}}
	if len(q.Rules) > 0 {
		answers["always"] = approval.Always
		actions = slices.Insert(actions, 2, editor.Action{ID: "always", Label: "Always Allow, by This Rule"})
	}
	choice, err := d.conn.Confirm(ctx, editor.Question{Title: "Copilot Bridge", Message: lead, Detail: body, Actions: actions}, within)
	switch {
	case errors.Is(err, context.DeadlineExceeded), bridge.CodeOf(err) == bridge.CodeTimeout:
		return approval.No, context.DeadlineExceeded // the guard says how long it has waited
	case err != nil:
		return approval.No, err
	}
	return answers[choice], nil
}
