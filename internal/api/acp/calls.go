package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
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

// change changes the calls and wakes the goroutines that wait for a change.
func (t *turn) change(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// find returns a call that the client knows, or nil.
func (t *turn) find(id string) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[id]
}

// began tells of a call that is about to run. To the client it stays pending
// until it is allowed: a client with its own guard would take one in progress
// for a call that runs without asking.
func (t *turn) began(ctx context.Context, c bridge.ToolCall) error {
	if err := t.started(ctx, c, acpwire.StatusPending); err != nil {
		return err
	}
	t.change(func() { t.calls[c.ID].begun = true })
	return nil
}

// decided tells that a call runs which was allowed.
func (t *turn) decided(ctx context.Context, e bridge.PermissionDecided) error {
	t.mu.Lock()
	c := t.calls[cmp.Or(e.CallID, t.asked[e.RequestID])]
	t.mu.Unlock()
	if c == nil || !c.begun || e.Decision.Verdict != bridge.Allow {
		return nil
	}
	return t.started(ctx, c.ToolCall, acpwire.StatusInProgress)
}

// started tells of a call: that the model wants it, then that it runs.
func (t *turn) started(ctx context.Context, c bridge.ToolCall, status string) error {
	known := t.find(c.ID)
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
	t.change(func() {
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
	c := t.find(e.CallID)
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
	t.change(func() { c.status = acpwire.StatusInProgress })
	return t.session.update(ctx, &acpwire.ToolCall{Type: acpwire.UpdateToolCallUpdate, ToolCallID: e.CallID, Status: acpwire.StatusInProgress,
		Content: []acpwire.ToolContent{textContent(c.output)}})
}

// finished ends a call.
func (t *turn) finished(ctx context.Context, e bridge.ToolFinished) error {
	c := t.find(e.CallID)
	if c == nil {
		// One that began earlier, or was not announced.
		if err := t.started(ctx, bridge.ToolCall{ID: e.CallID, Name: e.Name}, acpwire.StatusInProgress); err != nil {
			return err
		}
		c = t.find(e.CallID)
	}
	u := &acpwire.ToolCall{Type: acpwire.UpdateToolCallUpdate, ToolCallID: e.CallID, Status: acpwire.StatusCompleted}
	// An update's content replaces the older one, so the diff stays in it.
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
		u.Content = []acpwire.ToolContent{textContent(cmp.Or(e.Error, e.Result))}
	}
	u.RawOutput, _ = json.Marshal(raw) // texts only
	t.change(func() { c.status = u.Status })
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
		t.change(func() { c.status = u.Status })
		if err := t.session.update(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// question finds the call that a question is about, for subject. Questions that
// the guard asks before the runtime does name no call.
func (t *turn) question(r bridge.PermissionRequest) {
	t.change(func() {
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

// catchUp is how long a question waits for the event of its call.
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

// kinds are those of Copilot's own tools; any other is "other".
var kinds = map[string]string{
	"bash": acpwire.KindExecute, "powershell": acpwire.KindExecute, "read_bash": acpwire.KindExecute, "write_bash": acpwire.KindExecute,
	"stop_bash": acpwire.KindExecute, "list_bash": acpwire.KindExecute,
	"view": acpwire.KindRead, "create": acpwire.KindEdit, "edit": acpwire.KindEdit, "str_replace_editor": acpwire.KindEdit, "apply_patch": acpwire.KindEdit,
	"glob": acpwire.KindSearch, "grep": acpwire.KindSearch, "semantic_code_search": acpwire.KindSearch, "web_search": acpwire.KindSearch,
	"web_fetch": acpwire.KindFetch, "fetch": acpwire.KindFetch,
	"task": acpwire.KindThink, "think": acpwire.KindThink, "report_intent": acpwire.KindThink, "exit_plan_mode": acpwire.KindSwitchMode,
}

// describe is a tool call as a client shows it.
func (s *session) describe(c bridge.ToolCall) *acpwire.ToolCall {
	args, _ := c.Args.(map[string]any)
	text := func(name string) string { v, _ := args[name].(string); return v }
	out := &acpwire.ToolCall{ToolCallID: c.ID, Name: c.Name, ToolKind: acpwire.KindOther, Title: c.Name}
	if c.Args != nil {
		if raw, err := json.Marshal(c.Args); err == nil {
			out.RawInput = raw
		}
	}
	if c.Server != "" {
		out.Title = oneLine(c.Server + ": " + strings.TrimPrefix(c.Name, c.Server+"-"))
		return out
	}
	if k, ok := kinds[c.Name]; ok {
		out.ToolKind = k
	}
	path := text("path")
	if path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.cwd, path)
		}
		out.Locations = []acpwire.Location{{Path: path}}
	}
	switch c.Name {
	case "bash", "powershell":
		out.Title = text("command")
	case "view":
		out.Title = "Read " + s.short(path)
		if from, ok := firstLine(args["view_range"]); ok && len(out.Locations) > 0 {
			out.Locations[0].Line = &from
		}
	case "create":
		out.Title = "Create " + s.short(path)
		if path != "" {
			out.Content = []acpwire.ToolContent{{Type: acpwire.ToolContentDiff, Path: path, NewText: text("file_text")}}
		}
	case "edit":
		out.Title = "Edit " + s.short(path)
		if old := text("old_str"); path != "" {
			out.Content = []acpwire.ToolContent{{Type: acpwire.ToolContentDiff, Path: path, OldText: &old, NewText: text("new_str")}}
		}
	case "glob", "grep":
		out.Title = "Find " + text("pattern")
	case "web_fetch", "fetch":
		out.Title = "Fetch " + text("url")
	}
	out.Title = oneLine(cmp.Or(out.Title, c.Name))
	return out
}

// short names a file as people in this directory do.
func (s *session) short(path string) string {
	if rel, err := filepath.Rel(s.cwd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// firstLine reads the beginning of a view_range; lines count from 1.
func firstLine(v any) (int, bool) {
	list, _ := v.([]any)
	if len(list) == 0 {
		return 0, false
	}
	n, ok := list[0].(float64)
	return int(n), ok && n >= 1
}

// maxTitle is how many characters a title may have.
const maxTitle = 120

// oneLine is a text's first line, cut to what a title may hold.
func oneLine(s string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if line = approval.Visible(line); utf8.RuneCountInString(line) > maxTitle {
		return approval.Clip(line, maxTitle)
	}
	if rest != "" {
		return line + " …"
	}
	return line
}

func textContent(s string) acpwire.ToolContent {
	block := acpwire.Text(s)
	return acpwire.ToolContent{Type: acpwire.ToolContentBlock, Content: &block}
}
