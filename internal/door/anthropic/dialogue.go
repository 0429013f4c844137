package anthropic

import (
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// between separates the text blocks of a message, and the texts of messages
// that are joined.
const between = "\n\n"

// billing begins a system block in which Claude Code tells Anthropic whom to
// charge. It is no instruction, and it changes where the instructions do not.
const billing = "x-anthropic-billing-header:"

// draft is a message whose text is still in parts.
type draft struct {
	bridge.Message
	parts []string
}

func (d *draft) say(text string) {
	if text != "" {
		d.parts = append(d.parts, text)
	}
}

// dialogue turns messages of this API into the domain's. Messages of the same
// role that follow each other are one turn, as the API says; tool results
// become messages of their own, before the words that came with them.
type dialogue struct {
	system   []string
	drafts   []draft
	attached int // images and documents so far; numbers their names
	changes  changes
	effort   string // what the newest turn asks for
}

func (r *request) dialogue(why purpose) (*dialogue, error) {
	d := &dialogue{}
	if err := d.instructions(r.System); err != nil {
		return nil, err
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		at := place{message: i, block: -1}
		if m.Content.object {
			return nil, wire.At(at.path("content"), "expected a string or an array, got an object")
		}
		var err error
		switch m.Role {
		case "user":
			err = d.user(at, m)
		case "assistant":
			err = d.assistant(at, m)
		case "system":
			err = d.aside(at, m)
		default:
			err = wire.At(at.path("role"), `expected "user", "assistant" or "system", got %s`, quote(m.Role))
		}
		if err != nil {
			return nil, err
		}
	}
	if why == justCount {
		return d, nil
	}
	if len(d.drafts) == 0 {
		return nil, wire.At("messages", "there is nothing in them to answer")
	}
	if d.drafts[len(d.drafts)-1].Role == bridge.RoleAssistant {
		return nil, wire.At(index("messages", len(r.Messages)-1), "the conversation must end with a user message: the models here cannot continue the assistant's words (prefill)")
	}
	return d, nil
}

// instructions reads the system field.
func (d *dialogue) instructions(c content) error {
	if c.object {
		return wire.At("system", "expected a string or an array, got an object")
	}
	for i := range c.blocks {
		b := &c.blocks[i]
		if b.Type != "text" {
			return wire.At(index("system", i)+".type", `expected "text", got %s`, quote(b.Type))
		}
		if b.Text != "" && !strings.HasPrefix(b.Text, billing) {
			d.system = append(d.system, b.Text)
		}
	}
	return nil
}

// user reads a user's message: words, attachments, and results of tools.
func (d *dialogue) user(at place, m *message) error {
	if len(m.Content.blocks) == 0 {
		return wire.At(at.path("content"), "a user message must not be empty")
	}
	said := draft{Message: bridge.Message{Role: bridge.RoleUser}}
	for i := range m.Content.blocks {
		at.block = i
		b := &m.Content.blocks[i]
		if b.Type != "tool_result" {
			if err := d.part(at, b, &said); err != nil {
				return err
			}
			continue
		}
		if err := d.result(at, b); err != nil {
			return err
		}
	}
	if len(said.parts) == 0 && len(said.Attachments) == 0 {
		return nil
	}
	d.effort = "" // a new turn
	if last := d.last(bridge.RoleUser); last != nil {
		last.parts = append(last.parts, said.parts...)
		last.Attachments = append(last.Attachments, said.Attachments...)
		return nil
	}
	d.drafts = append(d.drafts, said)
	return nil
}

// result reads what a tool of the client has returned.
func (d *dialogue) result(at place, b *block) error {
	if b.ToolUseID == "" {
		return wire.At(at.path("tool_use_id"), "the field is required")
	}
	if b.Content.object {
		return wire.At(at.path("content"), "expected a string or an array, got an object")
	}
	out := draft{Message: bridge.Message{Role: bridge.RoleTool, CallID: callID(b.ToolUseID), Failed: b.IsError}}
	for i := range b.Content.blocks {
		inner := at.inside("content", i)
		if err := d.part(inner, &b.Content.blocks[i], &out); err != nil {
			return err
		}
	}
	d.drafts = append(d.drafts, out)
	return nil
}

// assistant reads the model's own words. Its thinking and what Anthropic's own
// tools did are left out: the session that said it remembers, and another one
// could make no use of them.
func (d *dialogue) assistant(at place, m *message) error {
	said := draft{Message: bridge.Message{Role: bridge.RoleAssistant}}
	for i := range m.Content.blocks {
		at.block = i
		switch b := &m.Content.blocks[i]; b.Type {
		case "text":
			said.say(b.Text)
		case "compaction":
			said.say(b.Content.plain())
		case "tool_use":
			if b.ID == "" {
				return wire.At(at.path("id"), "the field is required")
			}
			if b.Name == "" {
				return wire.At(at.path("name"), "the field is required")
			}
			said.Calls = append(said.Calls, bridge.ToolCall{ID: callID(b.ID), Name: b.Name, Args: b.Input})
		case "tool_result":
			return wire.At(at.path("type"), "a tool_result belongs into a user message")
		case "":
			return wire.At(at.path("type"), "the field is required")
		default:
		}
	}
	if len(said.parts) == 0 && len(said.Calls) == 0 {
		return nil
	}
	if last := d.last(bridge.RoleAssistant); last != nil {
		last.parts = append(last.parts, said.parts...)
		last.Calls = append(last.Calls, said.Calls...)
		return nil
	}
	d.drafts = append(d.drafts, said)
	return nil
}

// aside reads a system message inside the conversation. Before its beginning
// it is an instruction like those in the system field. Later on it goes, in
// the tags that models know for this, with what it follows: it comments on
// that, and often nothing else follows it.
func (d *dialogue) aside(at place, m *message) error {
	for i := range m.Content.blocks {
		at.block = i
		switch b := &m.Content.blocks[i]; b.Type {
		case "text":
			d.remind(b.Text)
		case "tool_addition", "tool_removal":
			if b.Tool == nil {
				return wire.At(at.path("tool"), "the field is required")
			}
			d.changes.change(b)
		case "":
			return wire.At(at.path("type"), "the field is required")
		default: // a later version's; what comes with it is still worth reading
		}
	}
	if m.OutputConfig != nil && m.OutputConfig.Effort != "" {
		if !known(m.OutputConfig.Effort) {
			at.block = -1
			return wire.At(at.path("output_config.effort"), "unknown effort %s", quote(m.OutputConfig.Effort))
		}
		d.effort = m.OutputConfig.Effort
	}
	return nil
}

func (d *dialogue) remind(text string) {
	if text == "" {
		return
	}
	if len(d.drafts) == 0 {
		d.system = append(d.system, text)
		return
	}
	last := &d.drafts[len(d.drafts)-1]
	if last.Role == bridge.RoleAssistant {
		d.drafts = append(d.drafts, draft{Message: bridge.Message{Role: bridge.RoleUser}})
		last = &d.drafts[len(d.drafts)-1]
	}
	last.say("<system-reminder>\n" + text + "\n</system-reminder>")
}

// last returns the newest message if it is of this role.
func (d *dialogue) last(role bridge.Role) *draft {
	if n := len(d.drafts); n > 0 && d.drafts[n-1].Role == role {
		return &d.drafts[n-1]
	}
	return nil
}

func (d *dialogue) systemText() string { return strings.Join(d.system, between) }

func (d *dialogue) finished() []bridge.Message {
	out := make([]bridge.Message, len(d.drafts))
	for i := range d.drafts {
		out[i] = d.drafts[i].Message
		out[i].Text = strings.Join(d.drafts[i].parts, between)
	}
	return out
}

// place is where in the body a block is; its path is only put together for an
// error.
type place struct {
	message, block int // block -1: the message itself
	inner          string
	item           int
}

// inside is the place of an element of one of the block's lists.
func (p place) inside(list string, i int) place {
	p.inner, p.item = list, i
	return p
}

func (p place) path(field string) string {
	path := index("messages", p.message)
	if p.block >= 0 {
		path = index(path+".content", p.block)
	}
	if p.inner != "" {
		path = index(path+"."+p.inner, p.item)
	}
	return path + "." + field
}
