package view

import (
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// Step shows the progress of an install: in place on a terminal, elsewhere as a
// line for each step and each tenth of it.
func (a *Activity) Step(s copilotruntime.Step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.c.ErrTTY {
		a.status = s.Text
		if s.Total > 0 {
			const width = 20
			full := int(min(s.Done, s.Total) * width / s.Total)
			a.status += fmt.Sprintf("  %s%s %3d %%  %s", strings.Repeat("█", full), strings.Repeat("░", width-full), s.Done*100/s.Total, megabytes(s))
		}
		a.redraw()
		return
	}
	tenth := int64(0)
	if s.Total > 0 {
		tenth = s.Done * 10 / s.Total
	}
	if s.Text != a.step {
		a.step, a.tenth = s.Text, 0
		a.stepped(s, s.Text)
	}
	if tenth > a.tenth {
		a.tenth = tenth
		a.stepped(s, fmt.Sprintf("  %d %% (%s)", tenth*10, megabytes(s)))
	}
}

func (a *Activity) stepped(s copilotruntime.Step, line string) {
	if a.c.Line(line); a.o.JSON != nil {
		_ = WriteJSON(a.o.JSON, map[string]any{"type": "progress", "text": s.Text, "done": s.Done, "total": s.Total}) // a failure is noticed by the stream
	}
}

func megabytes(s copilotruntime.Step) string {
	return fmt.Sprintf("%d of %d MB", (s.Done+500_000)/1_000_000, (s.Total+500_000)/1_000_000)
}
