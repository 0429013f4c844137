package guard

import (
	"sync/atomic"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Counts are what guards have decided. Many may share one; a nil one counts
// nothing.
type Counts struct {
	Allowed, Consented, Denied atomic.Int64 // tool calls
	Waiting                    atomic.Int64 // questions that a person has not answered yet
}

// verdict counts a tool call. asked: a person was asked about it.
func (c *Counts) verdict(d bridge.Decision, asked bool) {
	switch {
	case c == nil:
	case d.Verdict != bridge.Allow:
		c.Denied.Add(1)
	case asked:
		c.Consented.Add(1)
	default:
		c.Allowed.Add(1)
	}
}

// waiting counts a question until answered is called.
func (c *Counts) waiting() (answered func()) {
	if c == nil {
		return func() {}
	}
	c.Waiting.Add(1)
	return func() { c.Waiting.Add(-1) }
}
