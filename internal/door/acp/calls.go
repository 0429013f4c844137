package acp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// call is a tool call that the client knows of.
type call struct {
	bridge.ToolCall
	status string
	begun  bool      // its turn has come
	output string    // the end of what it has printed so far
	shown  time.Time // when output was last sent
}

func (c *call) over() bool {
	return c.status == acpwire.StatusCompleted || c.status == acpwire.StatusFailed
}

const (
	// mostOutput bounds how much of a running tool's output is shown.
	mostOutput = 16 << 10
	// showEvery bounds how often: each time all of it is sent again.
	showEvery = 100 * time.Millisecond
)

// note changes what is known of calls and wakes who waits for that.
func (t *turn) note(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// began tells of a call that has come to its turn. To the client it stays
// pending until it is known to have been allowed: a client that has a guard of
// its own would take one in progress for a call that runs without asking.
func (t *turn) began(ctx context.Context, c bridge.ToolCall) error {
	if err := t.started(ctx, c, acpwire.StatusPending); err != nil {
		return err
	}
	t.note(func() { t.calls[c.ID].begun = true })
	return nil
}

// decided tells that a call runs which was allowed.
func (t *turn) decided(ctx context.Context, e bridge.PermissionDecided) error {
	t.mu.Lock()
	id := e.CallID
	if id == "" {
		id = t.asked[e.RequestID]
	}
	c := t.calls[id]
	t.mu.Unlock()
	if c == nil || !c.begun || e.Decision.Verdict != bridge.Allow {
		return nil
	}
	return t.started(ctx, c.ToolCall, acpwire.StatusInProgress)
}

// started tells of a call: that the model wants it, then that it runs.
func (t *turn) started(ctx context.Context, c bridge.ToolCall, status string) error {
	t.mu.Lock()
	known := t.calls[c.ID]
	t.mu.Unlock()
	var u *acpwire.ToolCall
	switch {
	case known == nil:
		u = t.session.describe(c)
		u.Type, u.Status = acpwire.UpdateToolCall, status
	case known.status == acpwire.StatusPending && status != known.status:
		u = &acpwire.ToolCall{Type: acpwire.UpdateToolCallUpdate, ToolCallID: c.ID, Status: status}
	default:
		return nil
	}
	if err := t.session.update(ctx, u); err != nil {
		return err
	}
	t.note(func() {
		if known == nil {
			t.order = append(t.order, c.ID)
			known = &call{ToolCall: c}
			t.calls[c.ID] = known
		}
		known.status = status
	})
	return nil
}

// progress shows the end of what a tool has printed.
func (t *turn) progress(ctx context.Context, e bridge.ToolProgress) error {
	t.mu.Lock()
	c := t.calls[e.CallID]
	t.mu.Unlock()
	if c == nil {
		return nil
	}
	c.output += e.Text
	if over := len(c.output) - mostOutput; over > 0 {
		c.output = strings.ToValidUTF8(c.output[over:], "")
	}
	if time.Since(c.shown) < showEvery {
		return nil // the next piece or the end brings it
	}
	c.shown = time.Now()
	t.note(func() { c.status = acpwire.StatusInProgress })
	return t.session.update(ctx, &acpwire.ToolCall{Type: acpwire.UpdateToolCallUpdate, ToolCallID: e.CallID, Status: acpwire.StatusInProgress,
		Content: []acpwire.ToolContent{textContent(c.output)}})
}

// finished ends a call.
func (t *turn) finished(ctx context.Context, e bridge.ToolFinished) error {
	t.mu.Lock()
	c := t.calls[e.CallID]
	t.mu.Unlock()
	if c == nil {
		// One that began before we looked, or of which nobody told.
		if err := t.started(ctx, bridge.ToolCall{ID: e.CallID, Name: e.Name}, acpwire.StatusInProgress); err != nil {
			return err
		}
		t.mu.Lock()
		c = t.calls[e.CallID]
		t.mu.Unlock()
	}
	u := &acpwire.ToolCall{Type: acpwire.UpdateToolCallUpdate, ToolCallID: e.CallID, Status: acpwire.StatusCompleted}
	// An update's content replaces what was there, so the change stays in it.
	u.Content = t.session.describe(c.ToolCall).Content
	raw := map[string]any{}
	if e.OK {
		raw["content"] = e.Result
		if e.Result != "" && len(u.Content) == 0 {
			u.Content = append(u.Content, textContent(e.Result))
		}
	} else {
		u.Status = acpwire.StatusFailed
		raw["message"] = e.Error
		if e.Code != "" {
			raw["code"] = e.Code
		}
		text := e.Error
		if text == "" {
			text = e.Result
		}
		u.Content = []acpwire.ToolContent{textContent(text)}
	}
	u.RawOutput, _ = json.Marshal(raw) // texts only
	t.note(func() { c.status = u.Status })
	return t.session.update(ctx, u)
}

// close ends the calls that a turn has left unfinished.
func (t *turn) close(ctx context.Context) error {
	for _, id := range t.order {
		c := t.calls[id]
		if c.over() {
			continue
		}
		u := &acpwire.ToolCall{Type: acpwire.UpdateToolCallUpdate, ToolCallID: id, Status: acpwire.StatusFailed}
		t.note(func() { c.status = u.Status })
		if err := t.session.update(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// question finds the call that a question is about, and lets whoever puts it
// know. Questions that the guard asks before the runtime does name no call.
func (t *turn) question(r bridge.PermissionRequest) {
	t.note(func() {
		id := r.CallID
		if id == "" {
			taken := map[string]bool{}
			for _, call := range t.asked {
				taken[call] = true
			}
			i := slices.IndexFunc(t.order, func(id string) bool {
				c := t.calls[id]
				return !taken[id] && c.Name == r.Tool && c.begun && !c.over() && same(c.Args, r.Args)
			})
			if i >= 0 {
				id = t.order[i]
			}
		}
		t.asked[r.ID] = id
	})
}

// same compares arguments as they would be written.
func same(a, b any) bool {
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && string(x) == string(y)
}

// catchUp is how long a question waits for its call to be told of: that comes
// by another way and may be a moment behind.
const catchUp = 2 * time.Second

// subject waits for the call that a question is about; nil if none is found.
func (t *turn) subject(ctx context.Context, r bridge.PermissionRequest) *bridge.ToolCall {
	late := time.NewTimer(catchUp)
	defer late.Stop()
	for {
		t.mu.Lock()
		id, heard := r.CallID, r.CallID != ""
		if !heard {
			id, heard = t.asked[r.ID]
		}
		known, changed := t.calls[id], t.changed
		t.mu.Unlock()
		switch {
		case known != nil:
			return &known.ToolCall
		case heard && r.CallID == "":
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
