package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

// translator makes events of updates. It belongs to one goroutine: Send's, or
// that of Resume, which replays a history.
type translator struct {
	s         *conversation
	push      func(bridge.Event)
	replaying bool

	messages int // to number them where the agent does not
	wireID   string
	id       string
	text     strings.Builder
	thoughts strings.Builder
	user     strings.Builder
	held     string // may be an error of the model's, see copilotSays
	speaking bool   // a request to the model has gone out since a tool was used
	requests int
	cost     float64
}

func newTranslator(s *conversation, push func(bridge.Event)) *translator {
	return &translator{s: s, push: push}
}

func (tr *translator) items(items []item) {
	for _, it := range items {
		if it.event != nil {
			tr.push(it.event)
			continue
		}
		tr.update(it)
	}
}

// other passes an update on as it came, for what no event can carry.
func (tr *translator) other(it item) {
	out := bridge.Other{Name: it.update.Kind(), Data: it.update}
	if it.raw != nil {
		out.Data = it.raw
	}
	tr.push(out)
}

func (tr *translator) update(it item) {
	if tr.held != "" {
		held := tr.held
		tr.held = ""
		tr.say("", held)
	}
	if c, ok := it.update.(*acpwire.Chunk); !ok || c.Type != acpwire.UpdateUserMessage {
		tr.finishUser()
	}
	switch u := it.update.(type) {
	case *acpwire.Chunk:
		tr.chunk(it, u)
	case *acpwire.ToolCall:
		tr.tool(it, u)
	case *acpwire.Plan:
		tr.push(bridge.PlanChanged{Text: planText(u), Entries: planEntries(u)})
	case *acpwire.CurrentMode:
		mode := short(u.ModeID)
		if mode == modeAgent {
			mode = bridge.ModeInteractive
		}
		tr.push(bridge.ModeChanged{Mode: mode})
	case *acpwire.UsageUpdate:
		tr.finishMessage(nil)
		tr.requests++
		tr.speaking = true
		if u.Cost != nil {
			tr.cost = u.Cost.Amount
		}
		if tr.s.link.opts.Copilot && !tr.replaying {
			tr.push(bridge.ModelCalled{}) // it tells before each request
		}
		tr.push(bridge.ContextMeasured{Tokens: u.Used, Limit: u.Size})
		tr.other(it) // the cost is only there
	case *acpwire.Notice:
		level := u.Severity
		if level != "warning" && level != "error" {
			level = "info"
		}
		tr.push(bridge.Notice{Level: level, Text: tr.s.link.scrubText(strings.TrimSpace(u.Title + "\n" + u.Description))})
	case *acpwire.Compaction:
		if u.Type == acpwire.UpdateCompaction && u.Status == acpwire.StatusInProgress {
			tr.push(bridge.Notice{Level: "info", Text: "the conversation is being compacted"})
		}
		tr.other(it)
	default:
		tr.other(it)
	}
}

func (tr *translator) chunk(it item, c *acpwire.Chunk) {
	text, plain := blockText(c.Content)
	switch c.Type {
	case acpwire.UpdateUserMessage:
		if tr.replaying {
			tr.finishMessage(nil)
			tr.user.WriteString(text)
		}
	case acpwire.UpdateAgentThought:
		tr.thoughts.WriteString(text)
		tr.push(bridge.ReasoningDelta{ID: c.MessageID, Text: text})
	default:
		if tr.s.link.opts.Copilot && !tr.replaying && tr.copilotSays(text) {
			return
		}
		tr.say(c.MessageID, text)
	}
	if !plain {
		tr.other(it) // an image, say
	}
}

// copilotSays handles what Copilot's CLI says by itself: it has no other means
// than the assistant's words. It is told from them by when it comes, since the
// model only speaks after a request to it; and an error of the model's by the
// end of the turn, see conclude.
func (tr *translator) copilotSays(text string) bool {
	level, rest, ok := strings.Cut(text, ": ")
	levels := map[string]string{"Info": "info", "Warning": "warning", "Error": "error"}
	if !ok || levels[level] == "" {
		return false
	}
	switch {
	case strings.HasPrefix(text, interrupted):
		if tr.id != "" {
			tr.push(bridge.MessageRetracted{Message: tr.id})
			tr.id, tr.wireID = "", ""
			tr.text.Reset()
			tr.thoughts.Reset()
		}
	case text == retrying && tr.text.Len() == 0:
	case tr.speaking && level == "Error" && tr.text.Len() == 0:
		tr.held = text
		return true
	case tr.speaking:
		return false
	}
	tr.push(bridge.Notice{Level: levels[level], Text: tr.s.link.scrubText(rest)})
	return true
}

// interrupted is how the CLI says that a stream broke and begins anew.
const interrupted = "Info: Response was interrupted due to a server error. Retrying"

// retrying is how the CLI says that a request failed, all in one piece.
const retrying = "Info: Request failed due to a transient API error. Retrying..."

// say adds to the present message, or begins one.
func (tr *translator) say(wireID, text string) {
	if tr.id != "" && wireID != tr.wireID && wireID != "" && tr.wireID != "" {
		tr.finishMessage(nil)
	}
	if tr.id == "" {
		tr.messages++
		tr.id, tr.wireID = wireID, wireID
		if wireID == "" {
			tr.id = fmt.Sprintf("message-%d", tr.messages)
		}
	}
	tr.text.WriteString(text)
	if text != "" {
		tr.push(bridge.TextDelta{Message: tr.id, Text: text})
	}
}

// finishMessage ends the present message, with the calls that it leads to.
func (tr *translator) finishMessage(calls []bridge.ToolCall) {
	if tr.held != "" {
		held := tr.held
		tr.held = ""
		tr.say("", held)
	}
	tr.finishUser()
	if tr.id == "" {
		return
	}
	tr.push(bridge.MessageDone{Message: tr.id, Text: tr.text.String(), Reasoning: tr.thoughts.String(), Calls: calls})
	tr.id, tr.wireID = "", ""
	tr.text.Reset()
	tr.thoughts.Reset()
}

func (tr *translator) finishUser() {
	if tr.user.Len() == 0 {
		return
	}
	tr.push(bridge.UserSaid{Text: tr.user.String()})
	tr.user.Reset()
}

func (tr *translator) tool(it item, u *acpwire.ToolCall) {
	s := tr.s
	s.mu.Lock()
	c := s.calls[u.ToolCallID]
	if c == nil { // the turn is over
		c = s.noteCall(u)
	}
	tool, denied := c.tool, c.denied
	s.mu.Unlock()
	if !c.announced {
		c.announced = true
		tr.finishMessage([]bridge.ToolCall{tool})
		tr.push(bridge.ToolStarted{Call: tool})
	}
	tr.speaking = false
	text := tr.contentText(u)
	done := u.Status == acpwire.StatusCompleted || u.Status == acpwire.StatusFailed
	if text != "" && !done && u.Type == acpwire.UpdateToolCallUpdate {
		fresh, grew := strings.CutPrefix(text, c.printed)
		if !grew {
			fresh = text
		}
		c.printed = text
		if fresh != "" {
			tr.push(bridge.ToolProgress{CallID: u.ToolCallID, Text: fresh})
		}
	}
	if u.Type == acpwire.UpdateToolCall {
		tr.other(it) // no event carries diffs and places
	}
	if !done || c.finished {
		return
	}
	c.finished = true
	if u.Status == acpwire.StatusFailed && !tr.replaying {
		denied = s.review(c, tool)
	}
	if tr.finishTool(c, tool, u, text, denied) {
		tr.other(it)
	}
}

// finishTool ends a call, after the gate has seen its result, and says whether
// the result may be shown as it is. The model has seen it already: the gate
// decides about everybody else.
func (tr *translator) finishTool(c *call, tool bridge.ToolCall, u *acpwire.ToolCall, text, denied string) bool {
	s := tr.s
	out := bridge.ToolFinished{CallID: u.ToolCallID, Name: tool.Name, OK: u.Status == acpwire.StatusCompleted, Duration: time.Since(c.started)}
	raw, code := outputText(u.RawOutput)
	if raw == "" {
		raw = text
	}
	if !out.OK {
		out.Error, out.Code = raw, code
		if denied != "" {
			out.Error, out.Code = denied, "denied"
		}
		if out.Error == "" {
			out.Error = "the tool failed"
		}
		if s.Spec.Gate != nil && !tr.replaying {
			s.Spec.Gate.Failed(s.GateContext(), tool, out.Error)
		}
		tr.push(out)
		return true
	}
	out.Result = raw
	if s.Spec.Gate != nil && !tr.replaying {
		clean, err := s.AfterText(s.GateContext(), tool, raw)
		if err != nil {
			clean, out.OK, out.Error = "", false, "[withheld: "+err.Error()+"]"
		}
		out.Result = clean
	}
	tr.push(out)
	return out.Result == raw
}

// contentText is the text of what a call shows.
func (tr *translator) contentText(u *acpwire.ToolCall) string {
	var b strings.Builder
	for _, k := range u.Content {
		switch k.Type {
		case acpwire.ToolContentBlock:
			if k.Content != nil {
				text, _ := blockText(*k.Content)
				b.WriteString(text)
			}
		case acpwire.ToolContentTerminal:
			if out, ok := tr.s.terminalText(k.TerminalID); ok {
				b.WriteString(out)
			}
		}
	}
	return b.String()
}

// blockText is the text of a block, and whether that is all of it.
func blockText(c acpwire.ContentBlock) (string, bool) {
	switch {
	case c.Type == acpwire.ContentText:
		return c.Text, true
	case c.Type == acpwire.ContentResource && c.Resource != nil && c.Resource.Text != nil:
		return *c.Resource.Text, false
	}
	return "", false
}

// outputText finds the text and the error code in what a tool returned.
func outputText(raw json.RawMessage) (text, code string) {
	if json.Unmarshal(raw, &text) == nil {
		return text, ""
	}
	var obj struct {
		Content json.RawMessage `json:"content"`
		Message string          `json:"message"`
		Output  string          `json:"output"`
		Code    string          `json:"code"`
	}
	if json.Unmarshal(raw, &obj) != nil {
		return "", ""
	}
	if json.Unmarshal(obj.Content, &text) != nil || text == "" {
		text = obj.Message
	}
	if text == "" {
		text = obj.Output
	}
	return text, obj.Code
}

func planEntries(p *acpwire.Plan) []bridge.PlanEntry {
	out := make([]bridge.PlanEntry, 0, len(p.Entries))
	for _, e := range p.Entries {
		out = append(out, bridge.PlanEntry{Text: e.Content, Status: bridge.StepStatus(e.Status), Priority: e.Priority})
	}
	return out
}

func planText(p *acpwire.Plan) string {
	var b strings.Builder
	for _, e := range p.Entries {
		mark := map[string]string{"completed": "[x]", "in_progress": "[>]"}[e.Status]
		if mark == "" {
			mark = "[ ]"
		}
		fmt.Fprintf(&b, "- %s %s\n", mark, e.Content)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
