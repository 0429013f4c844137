package anthropic

import (
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// between separates the text blocks of a message, and joined messages.
const between = "\n\n"

// billing begins a system block that Claude Code writes for Anthropic. It is no
// instruction, and it changes where the instructions do not.
const billing = "x-anthropic-billing-header:"

// addText adds a text block to a message.
func addText(m *bridge.Message, text string) {
	if m.Text != "" && text != "" {
		m.Text += between
	}
	m.Text += text
}

// dialogue turns messages of this API into the domain's. Neighbours with the same
// role become one; tool results become messages before the text beside them.
type dialogue struct {
	system   []string
	messages []bridge.Message
	attached int // images and documents so far; numbers their names
	changes  changes
	effort   string // what the newest turn asks for
}

func (r *request) dialogue(why purpose) (*dialogue, error) {
	d := &dialogue{changes: changes{offered: map[string]bool{}}}
	if err := d.instructions(r.System); err != nil {
		return nil, err
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		at := index("messages", i)
		if m.Content.object {
			return nil, wire.At(at+".content", "expected a string or an array, got an object")
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
			err = wire.At(at+".role", `expected "user", "assistant" or "system", got %.64q`, m.Role)
		}
		if err != nil {
			return nil, err
		}
	}
	if why == justCount {
		return d, nil
	}
	if len(d.messages) == 0 {
		return nil, wire.At("messages", "there is nothing in them to answer")
	}
	if d.messages[len(d.messages)-1].Role == bridge.RoleAssistant {
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
			return wire.At(index("system", i)+".type", `expected "text", got %.64q`, b.Type)
		}
		if b.Text != "" && !strings.HasPrefix(b.Text, billing) {
			d.system = append(d.system, b.Text)
		}
	}
	return nil
}

// user reads a user's message: words, attachments, and results of tools.
func (d *dialogue) user(at string, m *message) error {
	if len(m.Content.blocks) == 0 {
		return wire.At(at+".content", "a user message must not be empty")
	}
	said := bridge.Message{Role: bridge.RoleUser}
	for i := range m.Content.blocks {
		at := index(at+".content", i)
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
	if said.Text != "" || len(said.Attachments) > 0 {
		d.effort = "" // a new turn
		d.add(said)
	}
	return nil
}

// add appends a message, or merges it with the last one of the same role.
func (d *dialogue) add(m bridge.Message) {
	if n := len(d.messages); n > 0 && d.messages[n-1].Role == m.Role {
		last := &d.messages[n-1]
		addText(last, m.Text)
		last.Attachments = append(last.Attachments, m.Attachments...)
		last.Calls = append(last.Calls, m.Calls...)
		return
	}
	d.messages = append(d.messages, m)
}

// result reads what a tool of the client has returned.
func (d *dialogue) result(at string, b *block) error {
	if b.ToolUseID == "" {
		return wire.At(at+".tool_use_id", "the field is required")
	}
	if b.Content.object {
		return wire.At(at+".content", "expected a string or an array, got an object")
	}
	out := bridge.Message{Role: bridge.RoleTool, CallID: callID(b.ToolUseID), Failed: b.IsError}
	for i := range b.Content.blocks {
		inner := index(at+".content", i)
		if err := d.part(inner, &b.Content.blocks[i], &out); err != nil {
			return err
		}
	}
	d.messages = append(d.messages, out)
	return nil
}

// assistant reads the model's messages. Thinking and calls of Anthropic's tools are
// left out: the session has them, and another one cannot use them.
func (d *dialogue) assistant(at string, m *message) error {
	said := bridge.Message{Role: bridge.RoleAssistant}
	for i := range m.Content.blocks {
		at := index(at+".content", i)
		switch b := &m.Content.blocks[i]; b.Type {
		case "text":
			addText(&said, b.Text)
		case "compaction":
			addText(&said, b.Content.plain())
		case "tool_use":
			if b.ID == "" {
				return wire.At(at+".id", "the field is required")
			}
			if b.Name == "" {
				return wire.At(at+".name", "the field is required")
			}
			said.Calls = append(said.Calls, bridge.ToolCall{ID: callID(b.ID), Name: b.Name, Args: b.Input})
		case "tool_result":
			return wire.At(at+".type", "a tool_result belongs into a user message")
		case "":
			return wire.At(at+".type", "the field is required")
		default:
		}
	}
	if said.Text != "" || len(said.Calls) > 0 {
		d.add(said)
	}
	return nil
}

// aside reads a system message inside the conversation. Before the first message
// it is an instruction. Later it is added, in tags that models know, to the message
// before it, since often nothing follows.
func (d *dialogue) aside(at string, m *message) error {
	for i := range m.Content.blocks {
		at := index(at+".content", i)
		switch b := &m.Content.blocks[i]; b.Type {
		case "text":
			d.remind(b.Text)
		case "tool_addition", "tool_removal":
			if b.Tool == nil {
				return wire.At(at+".tool", "the field is required")
			}
			d.changes.change(b)
		case "":
			return wire.At(at+".type", "the field is required")
		default: // a later version's; what comes with it is still worth reading
		}
	}
	if m.OutputConfig != nil && m.OutputConfig.Effort != "" {
		if !known(m.OutputConfig.Effort) {
			return wire.At(at+".output_config.effort", "unknown effort %.64q", m.OutputConfig.Effort)
		}
		d.effort = m.OutputConfig.Effort
	}
	return nil
}

func (d *dialogue) remind(text string) {
	if text == "" {
		return
	}
	if len(d.messages) == 0 {
		d.system = append(d.system, text)
		return
	}
	if d.messages[len(d.messages)-1].Role == bridge.RoleAssistant {
		d.messages = append(d.messages, bridge.Message{Role: bridge.RoleUser})
	}
	addText(&d.messages[len(d.messages)-1], "<system-reminder>\n"+text+"\n</system-reminder>")
}

// part adds a block of a user's message, or of a tool's result, to a message.
func (d *dialogue) part(at string, b *block, to *bridge.Message) error {
	switch b.Type {
	case "text":
		addText(to, b.Text)
	case "image":
		return d.image(at, b, to)
	case "document":
		return d.document(at, b, to)
	case "search_result":
		addText(to, join("\n", b.Title, b.Source.name, b.Content.plain()))
	case "tool_reference":
		d.changes.offered[b.ToolName] = true
		addText(to, "Tool loaded: "+b.ToolName)
	case "compaction":
		addText(to, b.Content.plain())
	case "container_upload":
		return wire.At(at+".type", "there are no containers here: send the file itself")
	case "thinking", "redacted_thinking", "fallback", "mcp_tool_listing":
	case "":
		return wire.At(at+".type", "the field is required")
	default:
		// Results of Anthropic's tools are dropped, blocks of the client are not.
		if strings.HasSuffix(b.Type, "_tool_result") {
			return nil
		}
		if to.Role == bridge.RoleTool {
			addText(to, "["+b.Type+" left out]")
			return nil
		}
		return wire.At(at+".type", "a content block of type %.64q is not possible here", b.Type)
	}
	return nil
}

func (d *dialogue) image(at string, b *block, to *bridge.Message) error {
	s := &b.Source
	if err := given(at, s, "image"); err != nil {
		return err
	}
	if s.Type != "base64" {
		return wire.At(at+".source.type", `expected "base64", got %.64q`, s.Type)
	}
	if !strings.HasPrefix(s.MediaType, "image/") {
		return wire.At(at+".source.media_type", "expected an image type such as image/png, got %.64q", s.MediaType)
	}
	return d.attach(at, s, to, "")
}

func (d *dialogue) document(at string, b *block, to *bridge.Message) error {
	s := &b.Source
	if err := given(at, s, "document"); err != nil {
		return err
	}
	switch s.Type {
	case "text":
		addText(to, join("\n", b.Title, b.Context, s.Data))
	case "content":
		addText(to, join("\n", b.Title, b.Context))
		for i := range s.Content.blocks {
			inner := &s.Content.blocks[i]
			if inner.Type == "document" { // they do not nest
				return wire.At(at+".source.content", "a document cannot hold another one")
			}
			if err := d.part(at, inner, to); err != nil {
				return err
			}
		}
	case "base64":
		if _, _, err := mime.ParseMediaType(s.MediaType); err != nil {
			return wire.At(at+".source.media_type", "expected a type such as application/pdf, got %.64q", s.MediaType)
		}
		addText(to, b.Context)
		return d.attach(at, s, to, b.Title)
	default:
		return wire.At(at+".source.type", `expected "base64", "text" or "content", got %.64q`, s.Type)
	}
	return nil
}

// given refuses sources elsewhere: the bridge fetches and keeps nothing for clients.
func given(at string, s *source, what string) error {
	switch s.Type {
	case "url":
		return wire.At(at+".source", "the bridge does not fetch for its clients: send the %s itself, with a source of type base64", what)
	case "file":
		return wire.At(at+".source", "there are no uploaded files here: send the %s itself, with a source of type base64", what)
	case "":
		return wire.At(at+".source.type", "the field is required")
	default:
		return nil
	}
}

// attach adds the bytes of a base64 source. A title becomes part of the name.
func (d *dialogue) attach(at string, s *source, to *bridge.Message, title string) error {
	data, err := wire.DecodeBase64(s.Data)
	if err != nil {
		return wire.At(at+".source.data", "%s", err)
	}
	d.attached++
	name := wire.BaseName(title)
	if name == "" {
		kind, _, _ := strings.Cut(s.MediaType, "/")
		if kind != "image" {
			kind = "document"
		}
		name = fmt.Sprintf("%s-%d", kind, d.attached)
	}
	if path.Ext(name) == "" {
		name += extension(s.MediaType)
	}
	to.Attachments = append(to.Attachments, bridge.Attachment{Name: name, Data: data, MIME: s.MediaType})
	return nil
}

var extensions = map[string]string{"image/jpeg": ".jpg", "image/svg+xml": ".svg", "text/plain": ".txt", "text/markdown": ".md"}

// extension is the usual extension of such files, the same on each system.
func extension(mediaType string) string {
	if known, ok := extensions[mediaType]; ok {
		return known
	}
	_, format, _ := strings.Cut(mediaType, "/")
	if format == "" || strings.Trim(format, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return "." + format
}

// plain is the text in it, and in nothing that is nested deeper.
func (c content) plain() string {
	var parts []string
	for i := range c.blocks {
		if b := &c.blocks[i]; b.Type == "text" {
			parts = append(parts, b.Text)
		}
	}
	return join(between, parts...)
}

// join joins the parts that are not empty.
func join(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
