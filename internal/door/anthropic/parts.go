package anthropic

import (
	"encoding/base64"
	"fmt"
	"mime"
	"path"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// part adds a block of a user's message, or of a tool's result, to a draft.
func (d *dialogue) part(at place, b *block, to *draft) error {
	switch b.Type {
	case "text":
		to.say(b.Text)
	case "image":
		return d.image(at, b, to)
	case "document":
		return d.document(at, b, to)
	case "search_result":
		to.say(join("\n", b.Title, b.Source.name, b.Content.plain()))
	case "tool_reference":
		d.changes.load(b.ToolName)
		to.say("Tool loaded: " + b.ToolName)
	case "compaction":
		to.say(b.Content.plain())
	case "container_upload":
		return wire.At(at.path("type"), "there are no containers here: send the file itself")
	case "thinking", "redacted_thinking", "fallback", "mcp_tool_listing":
	case "":
		return wire.At(at.path("type"), "the field is required")
	default:
		// Results of tools that run at Anthropic, which a client only passes
		// on. What it adds itself must not be lost unnoticed.
		if strings.HasSuffix(b.Type, "_tool_result") {
			return nil
		}
		if to.Role == bridge.RoleTool {
			to.say("[" + b.Type + " left out]")
			return nil
		}
		return wire.At(at.path("type"), "a content block of type %s is not possible here", quote(b.Type))
	}
	return nil
}

func (d *dialogue) image(at place, b *block, to *draft) error {
	s := &b.Source
	if err := given(at, s, "image"); err != nil {
		return err
	}
	if s.Type != "base64" {
		return wire.At(at.path("source.type"), `expected "base64", got %s`, quote(s.Type))
	}
	if !strings.HasPrefix(s.MediaType, "image/") {
		return wire.At(at.path("source.media_type"), "expected an image type such as image/png, got %s", quote(s.MediaType))
	}
	return d.attach(at, s, to, "")
}

func (d *dialogue) document(at place, b *block, to *draft) error {
	s := &b.Source
	if err := given(at, s, "document"); err != nil {
		return err
	}
	switch s.Type {
	case "text":
		to.say(join("\n", b.Title, b.Context, s.Data))
	case "content":
		to.say(join("\n", b.Title, b.Context))
		for i := range s.Content.blocks {
			inner := &s.Content.blocks[i]
			if inner.Type == "document" { // they do not nest
				return wire.At(at.path("source.content"), "a document cannot hold another one")
			}
			if err := d.part(at, inner, to); err != nil {
				return err
			}
		}
	case "base64":
		if _, _, err := mime.ParseMediaType(s.MediaType); err != nil {
			return wire.At(at.path("source.media_type"), "expected a type such as application/pdf, got %s", quote(s.MediaType))
		}
		to.say(b.Context)
		return d.attach(at, s, to, b.Title)
	default:
		return wire.At(at.path("source.type"), `expected "base64", "text" or "content", got %s`, quote(s.Type))
	}
	return nil
}

// given refuses sources that are somewhere else: the bridge fetches nothing on
// a client's behalf, and keeps no files for it.
func given(at place, s *source, what string) error {
	switch s.Type {
	case "url":
		return wire.At(at.path("source"), "the bridge does not fetch for its clients: send the %s itself, with a source of type base64", what)
	case "file":
		return wire.At(at.path("source"), "there are no uploaded files here: send the %s itself, with a source of type base64", what)
	case "":
		return wire.At(at.path("source.type"), "the field is required")
	default:
		return nil
	}
}

// attach adds the bytes of a base64 source. A title, if it has one, becomes
// part of the name.
func (d *dialogue) attach(at place, s *source, to *draft, title string) error {
	data, err := decode64(s.Data)
	if err != nil {
		return wire.At(at.path("source.data"), "not valid base64")
	}
	if len(data) == 0 {
		return wire.At(at.path("source.data"), "there is no data in it")
	}
	d.attached++
	// Only the last element: it is a name, not a place on this machine.
	name := path.Base(strings.ReplaceAll(title, `\`, "/"))
	if name == "." || name == "/" || name == ".." {
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

// extension is the usual end of the names of such files. The list is our own,
// because the system's differs from machine to machine.
func extension(mediaType string) string {
	switch mediaType {
	case "image/jpeg":
		return ".jpg"
	case "image/svg+xml":
		return ".svg"
	case "text/plain":
		return ".txt"
	case "text/markdown":
		return ".md"
	}
	_, format, _ := strings.Cut(mediaType, "/")
	for _, c := range []byte(format) {
		if (c < 'a' || 'z' < c) && (c < '0' || '9' < c) {
			return ""
		}
	}
	if format == "" {
		return ""
	}
	return "." + format
}

// decode64 reads base64 with or without its padding.
func decode64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(s), "="))
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

// join leaves out what is empty.
func join(sep string, parts ...string) string {
	var b strings.Builder
	for _, s := range parts {
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(sep)
		}
		b.WriteString(s)
	}
	return b.String()
}
