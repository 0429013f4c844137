package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// What a dialog shows at most: it has no scroll bar everywhere.
const (
	dialogLines   = 40
	dialogColumns = 400
)

// dialog is the person at the window, who is asked one thing at a time.
type dialog struct {
	conn *editor.Conn
	turn chan struct{} // of one: held by the question that is shown
	// clean hides secrets.
	clean func(string) string
	most  time.Duration
}

// Ask shows a modal dialog. To close it, or to let the time pass, is a no.
func (d *dialog) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
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
	who := "Copilot"
	if q.Who != "" {
		who = q.Who
	}
	choice, err := d.conn.Confirm(ctx, editor.Question{
		Title: "Copilot Bridge", Message: approval.Visible(who + " wants to " + d.clean(q.Summary)), Detail: shown(d.clean(q.Detail)),
		Actions: []editor.Action{{ID: "once", Label: "Allow Once"}, {ID: "session", Label: "Allow for This Session"}, {ID: "no", Label: "Deny"}},
	}, within)
	switch {
	case errors.Is(err, context.DeadlineExceeded), bridge.CodeOf(err) == bridge.CodeTimeout:
		return approval.No, context.DeadlineExceeded // the guard says how long it has waited
	case err != nil:
		return approval.No, err
	}
	return map[string]approval.Answer{"once": approval.Once, "session": approval.Session}[choice], nil
}

// shown is a detail with every character visible, and not longer than a person
// can look at.
func shown(s string) string {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return ""
	}
	all := strings.Split(s, "\n")
	var out []string
	for _, line := range all[:min(len(all), dialogLines)] {
		line = approval.Visible(strings.TrimSuffix(line, "\r"))
		if runes := []rune(line); len(runes) > dialogColumns {
			line = string(runes[:dialogColumns]) + fmt.Sprintf(" … AND %d CHARACTERS THAT ARE NOT SHOWN", len(runes)-dialogColumns)
		}
		out = append(out, line)
	}
	if more := len(all) - dialogLines; more > 0 {
		out = append(out, fmt.Sprintf("… and %d more lines THAT ARE NOT SHOWN", more))
	}
	return strings.Join(out, "\n")
}
