package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// bar shows the progress of an install: in place on a terminal, elsewhere as
// a line for each step and each tenth.
type bar struct {
	c     *console
	now   func() time.Time
	began time.Time

	mu    sync.Mutex
	text  string
	tenth int64
	used  bool
}

func newBar(c *console) *bar { return &bar{c: c, now: time.Now, began: time.Now()} }

// step is a copilotruntime.Progress.
func (b *bar) step(s copilotruntime.Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = true
	if b.c.errTTY {
		b.c.show([]liveLine{{b.line(s), nil}})
		return
	}
	if s.Text != b.text {
		b.text, b.tenth = s.Text, 0
		b.c.line(s.Text)
	}
	if s.Total <= 0 {
		return
	}
	if tenth := s.Done * 10 / s.Total; tenth > b.tenth {
		b.tenth = tenth
		b.c.line(fmt.Sprintf("  %d %% (%d of %d MB)", tenth*10, megabytes(s.Done), megabytes(s.Total)))
	}
}

func (b *bar) line(s copilotruntime.Step) string {
	text := s.Text
	if s.Total > 0 {
		const width = 20
		full := int(min(s.Done, s.Total) * width / s.Total)
		text += fmt.Sprintf("  %s%s %3d %%  %d of %d MB", strings.Repeat("█", full), strings.Repeat("░", width-full),
			s.Done*100/s.Total, megabytes(s.Done), megabytes(s.Total))
	}
	return text + elapsed(b.now().Sub(b.began))
}

// done takes the bar off the screen.
func (b *bar) done() { b.c.show(nil) }

func megabytes(n int64) int64 { return (n + 500_000) / 1_000_000 }
