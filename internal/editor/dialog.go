package editor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Dialogs asks the person at the window, one thing at a time. It is an
// approval.Asker.
type Dialogs struct {
	conn *Conn
	turn chan struct{} // of one: held by the question that is shown
	most time.Duration
}

// NewDialogs returns dialogs of which each stays for at most a time.
func NewDialogs(c *Conn, most time.Duration) *Dialogs {
	return &Dialogs{conn: c, turn: make(chan struct{}, 1), most: most}
}

// Ask shows a modal dialog, or, if the text is long, an editor tab: the
// extension chooses. To close it, or to let the time pass, is a no.
func (d *Dialogs) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	lead, body, err := q.Whole(approval.MaxShown)
	if err != nil {
		return approval.Answer{}, err
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return approval.Answer{}, ctx.Err()
	}
	within := d.most
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline))
	}
	answers := map[string]approval.Consent{"once": approval.Once, "session": approval.Session}
	actions := []Action{{ID: "once", Label: "Allow Once"}, {ID: "session", Label: "Allow for This Session"}, {ID: "no", Label: "Deny"}}
	if len(q.Rules) > 0 {
		answers["always"] = approval.Always
		actions = slices.Insert(actions, 2, Action{ID: "always", Label: "Always Allow, by This Rule"})
	}
	choice, err := d.conn.Confirm(ctx, Question{Title: "Copilot Bridge", Message: lead, Detail: body, Actions: actions}, within)
	switch {
	case errors.Is(err, context.DeadlineExceeded), bridge.CodeOf(err) == bridge.CodeTimeout:
		return approval.Answer{}, context.DeadlineExceeded // the guard says how long it has waited
	case err != nil:
		return approval.Answer{}, err
	}
	return approval.Answer{Consent: answers[choice], By: "editor"}, nil
}
