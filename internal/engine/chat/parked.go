package chat

import (
	"context"
	"errors"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// noResult answers the calls for which a client brings no result.
var noResult = bridge.ToolResult{Text: "no result was given", Failed: true}

// answers says whether messages can go to a parked turn: results only of
// calls that it made. Service.mu is held.
func (c *conversation) answers(fresh []bridge.Message) bool {
	for i := range fresh {
		if fresh[i].Role == bridge.RoleTool && !c.called(fresh[i].CallID) {
			return false
		}
	}
	return true
}

func (c *conversation) called(id string) bool {
	for _, call := range c.calls {
		if call.ID == id {
			return true
		}
	}
	return false
}

// requested takes note that the runtime waits for a call, or answers it if
// the client has: it may ask for parallel calls one after another.
func (c *conversation) requested(e bridge.ToolRequested) error {
	c.modelAsked = true
	c.mu.Lock()
	r, ok := c.results[e.Call.ID]
	delete(c.results, e.Call.ID)
	if !ok {
		c.pending[e.Call.ID] = e.RequestID
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	return c.session.Resolve(c.ctx, e.RequestID, r)
}

// resume continues a parked turn: a brings results of its calls and perhaps
// more messages of the user.
func (c *conversation) resume(ctx context.Context, a *answer) error {
	s := c.service
	results, more, err := c.collect(ctx, a)
	if err != nil {
		s.giveBack(c)
		return err
	}
	a.cancel = c.cancel
	s.mu.Lock()
	if c.dead {
		s.mu.Unlock()
		return errOver
	}
	c.state = busy
	s.running++
	s.mu.Unlock()

	if more.Text != "" || len(more.Attachments) > 0 {
		if err := c.session.Steer(ctx, more); err != nil {
			if bridge.CodeOf(err) != bridge.CodeUnsupported {
				return c.giveUp(ctx, err)
			}
			last := c.calls[len(c.calls)-1].ID
			r := results[last]
			r.Text = strings.TrimSpace(r.Text + "\n\n" + more.Text)
			results[last] = r
		}
	}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return errOver
	}
	missed := c.backlog
	c.backlog = nil
	for _, ev := range missed {
		// The turn's goroutine does not know this answer yet, and the channel
		// has room for a backlog.
		if err := a.stream.see(ev); err != nil {
			c.mu.Unlock()
			return c.giveUp(ctx, err)
		}
	}
	c.reader = a
	ready := map[string]bridge.ToolResult{}
	for id, r := range results {
		if request, ok := c.pending[id]; ok {
			ready[request] = r
			delete(c.pending, id)
			continue
		}
		c.results[id] = r
	}
	c.mu.Unlock()
	for request, r := range ready {
		if err := c.session.Resolve(ctx, request, r); err != nil {
			a.leave() // so that the turn does not wait for a reader
			return c.giveUp(ctx, err)
		}
	}
	return nil
}

// errOver says that a parked turn ended while a request was resuming it.
var errOver = errors.New("the parked turn is over")

// giveUp aborts a turn that cannot continue; its goroutine cleans up. The client
// is not told, unless it has left itself.
func (c *conversation) giveUp(ctx context.Context, err error) error {
	c.cancel(err)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errOver
}

// collect reads the results and the user's messages after them.
func (c *conversation) collect(ctx context.Context, a *answer) (map[string]bridge.ToolResult, bridge.Prompt, error) {
	s := c.service
	results := map[string]bridge.ToolResult{}
	var rest []bridge.Message
	for i := range a.fresh {
		m := &a.fresh[i]
		if m.Role != bridge.RoleTool {
			rest = append(rest, *m)
			continue
		}
		text, err := s.checkPrompt(ctx, a, m.Text)
		if err != nil {
			return nil, bridge.Prompt{}, err
		}
		results[m.CallID] = bridge.ToolResult{Text: text, Failed: m.Failed}
		if len(m.Attachments) > 0 {
			// Results are text; what comes with them is shown as the user's.
			rest = append(rest, bridge.Message{Role: bridge.RoleUser, Text: "[attached to the result of " + m.CallID + "]", Attachments: m.Attachments})
		}
	}
	for _, call := range c.calls {
		if _, ok := results[call.ID]; !ok {
			results[call.ID] = noResult
		}
	}
	if len(rest) == 0 {
		return results, bridge.Prompt{}, nil
	}
	p := c.shape.tools.replay(rest, 0, 0)
	var err error
	p.Text, err = s.checkPrompt(ctx, a, p.Text)
	return results, p, err
}
