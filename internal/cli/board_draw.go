package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

var boardMarks = map[orchestrate.State]string{orchestrate.Pending: "·", orchestrate.Running: "●", orchestrate.Done: "✓", orchestrate.Failed: "✗",
	orchestrate.Skipped: "–", orchestrate.Canceled: "–"}

// line is a task: its mark, name, what it is doing, tokens and time.
func (b *board) line(t *boardTask, now time.Time) string {
	text := t.text
	if t.state == orchestrate.Pending && text == "" {
		if open := b.waitsFor(t); len(open) > 0 {
			text = "waits for " + strings.Join(open, ", ")
		} else {
			text = "waits for a place"
		}
	}
	name := approval.Visible(t.id)
	line := fmt.Sprintf("%s %s%s  %s", boardMarks[t.state], name, strings.Repeat(" ", max(0, b.widest-len([]rune(name)))), fit(text, 60))
	if t.tokens > 0 {
		line += "  " + count(t.tokens) + " tokens"
	}
	switch {
	case t.state == orchestrate.Running:
		line += elapsed(now.Sub(t.began))
	case t.took > 0:
		line += "  " + duration(t.took)
	}
	return line
}

func (b *board) waitsFor(t *boardTask) []string {
	var open []string
	for _, id := range b.needs[t.id] {
		if n := b.byID[id]; n != nil && n.state != orchestrate.Done && !slices.Contains(open, approval.Visible(id)) {
			open = append(open, approval.Visible(id))
		}
	}
	return open
}

// boardLines bounds the live region: a region taller than the screen cannot
// be drawn in place.
const boardLines = 18

func (b *board) redraw() {
	if !b.c.errTTY {
		return
	}
	b.c.show(b.drawing())
}

// drawing is the board as lines. If there are too many tasks, those that wait
// or have ended are only counted.
func (b *board) drawing() []liveLine {
	now := b.now()
	var lines []liveLine
	some := len(b.tasks) > boardLines
	counts := map[orchestrate.State]int{}
	for i, t := range b.tasks {
		if some && (t.state != orchestrate.Running || len(lines) >= boardLines) {
			counts[t.state]++
			continue
		}
		lines = append(lines, liveLine{b.stem(i, some) + b.line(t, now), b.paint(t)})
	}
	if some {
		var parts []string
		for _, s := range []orchestrate.State{orchestrate.Done, orchestrate.Failed, orchestrate.Skipped, orchestrate.Canceled, orchestrate.Running, orchestrate.Pending} {
			if counts[s] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
			}
		}
		lines = append(lines, liveLine{"  and " + strings.Join(parts, ", "), b.c.style.dim})
	}
	if b.doing != "" {
		lines = append(lines, liveLine{"… " + b.doing + elapsed(now.Sub(b.since)), b.c.style.dim})
	}
	return lines
}

// stem draws the waves at the left: which tasks stand beside each other.
func (b *board) stem(i int, some bool) string {
	t := b.tasks[i]
	if some {
		return fmt.Sprintf("%3d ", t.wave)
	}
	first := i == 0 || b.tasks[i-1].wave != t.wave
	last := i == len(b.tasks)-1 || b.tasks[i+1].wave != t.wave
	switch {
	case first && last:
		return fmt.Sprintf("%3d ─ ", t.wave)
	case first:
		return fmt.Sprintf("%3d ┬ ", t.wave)
	case last:
		return "    └ "
	}
	return "    ├ "
}

func (b *board) paint(t *boardTask) func(string) string {
	switch t.state {
	case orchestrate.Done:
		return b.c.style.green
	case orchestrate.Failed:
		return b.c.style.red
	case orchestrate.Skipped, orchestrate.Canceled:
		return b.c.style.yellow
	case orchestrate.Pending:
		return b.c.style.dim
	case orchestrate.Running:
	}
	return nil
}

// finish leaves the board on the screen and says what the run came to.
func (b *board) finish(r orchestrate.Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doing = ""
	c := b.c
	if c.errTTY {
		c.show(nil)
		if len(b.tasks) <= 200 {
			for i, t := range b.tasks {
				text := b.stem(i, false) + b.line(t, b.now())
				if paint := b.paint(t); paint != nil {
					text = paint(text)
				}
				c.line(text)
			}
		}
	}
	mark := c.style.green("done in " + duration(r.Duration))
	switch code := bridge.CodeOf(err); {
	case code == bridge.CodeCanceled:
		mark = c.style.yellow("interrupted after " + duration(r.Duration))
	case err != nil && r.Done > 0:
		mark = c.style.yellow("partly done after " + duration(r.Duration))
	case err != nil:
		mark = c.style.red("failed after " + duration(r.Duration))
	}
	parts := []string{mark}
	if r.Speedup > 1.05 {
		parts = append(parts, fmt.Sprintf("%.1f times as fast as one after another", r.Speedup))
	}
	if len(r.CriticalPath) > 1 {
		parts = append(parts, "longest path "+approval.Visible(strings.Join(r.CriticalPath, " → "))+" "+duration(r.CriticalDuration))
	}
	if r.Usage.Calls > 0 {
		parts = append(parts, count(r.Usage.InputTokens)+" tokens in, "+count(r.Usage.OutputTokens)+" out")
	}
	c.line(strings.Join(parts, c.style.dim(" · ")))
	b.where(r)
	if err != nil && r.Run != "" {
		c.line(c.style.dim("  go on with: copilot-bridge orchestrate --resume " + r.Run))
	}
}

// where says where the work is.
func (b *board) where(r orchestrate.Result) {
	if len(r.Files) > 0 {
		names := make([]string, 0, len(r.Files))
		for _, f := range r.Files[:min(len(r.Files), 20)] {
			names = append(names, approval.Visible(f))
		}
		if more := len(r.Files) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		b.c.line("  " + plural(len(r.Files), "file") + " changed: " + b.c.style.bold(strings.Join(names, ", ")))
	}
	if r.Merge != nil && r.Merge.Branch != "" {
		b.c.line("  on the branch " + b.c.style.bold(r.Merge.Branch))
	}
	for _, k := range r.Kept {
		b.c.line(b.c.style.yellow("  work that is not in it is kept on the branch " + approval.Visible(k)))
	}
}
