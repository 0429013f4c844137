package anthropic

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// changes is how the tools of a conversation differ from the list in its
// request: some are only offered once they were asked for, and messages may
// add and remove some.
type changes struct {
	loaded  map[string]bool
	removed map[string]bool
	defined []tool
}

func (c *changes) load(name string) {
	if c.loaded == nil {
		c.loaded = map[string]bool{}
	}
	c.loaded[name] = true
	delete(c.removed, name)
}

func (c *changes) change(b *block) {
	t := b.Tool
	switch {
	case b.Type == "tool_addition" && t.Definition != nil:
		c.defined = append(c.defined, *t.Definition)
		c.load(t.Definition.Name)
	case b.Type == "tool_addition":
		c.load(t.Name)
	default:
		if c.removed == nil {
			c.removed = map[string]bool{}
		}
		c.removed[t.Name] = true
		delete(c.loaded, t.Name)
	}
}

// own reports whether the client itself says what the tool is. All others are
// described, and most of them run, at Anthropic.
func (t *tool) own() bool { return t.Type == "" || t.Type == "custom" }

// offer fills in the tools that the model may call, and whether it must.
func (r *request) offer(p *prompt, c changes) error {
	searchable := true // nobody here searches for tools on the model's behalf
	names := make(map[string]bool, len(r.Tools))
	for i := range r.Tools {
		t := &r.Tools[i]
		if !t.own() {
			searchable = searchable && !strings.HasPrefix(t.Type, "tool_search_tool")
			p.dropped = append(p.dropped, join(" ", t.Type, t.Name))
			continue
		}
		if err := t.check(index("tools", i)); err != nil {
			return err
		}
		if names[t.Name] {
			return wire.At(index("tools", i)+".name", "there are two tools called %s", quote(t.Name))
		}
		names[t.Name] = true
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		if !t.own() || c.removed[t.Name] || t.Deferred && searchable && !c.loaded[t.Name] {
			continue
		}
		p.chat.Tools = append(p.chat.Tools, t.spec())
	}
	for i := range c.defined {
		t := &c.defined[i]
		if t.Name == "" || !t.own() || names[t.Name] || c.removed[t.Name] {
			continue
		}
		names[t.Name] = true
		p.chat.Tools = append(p.chat.Tools, t.spec())
	}
	return r.choose(p)
}

func (t *tool) check(path string) error {
	if t.Name == "" {
		return wire.At(path+".name", "the field is required")
	}
	if t.Schema == nil {
		return wire.At(path+".input_schema", "the field is required")
	}
	return nil
}

func (t *tool) spec() bridge.ToolSpec {
	schema := t.Schema
	if schema == nil { // of one that a message defines
		schema = map[string]any{"type": "object"}
	}
	return bridge.ToolSpec{Name: t.Name, Description: t.Description, Schema: schema}
}

// choose reads tool_choice.
func (r *request) choose(p *prompt) error {
	c := r.ToolChoice
	if c == nil {
		return nil
	}
	p.chat.OneCall = c.OneCall
	switch c.Type {
	case "auto":
	case "none":
		p.chat.Choice.Mode = bridge.ToolNone
	case "any":
		if len(r.Tools) == 0 {
			return wire.At("tool_choice", "there are no tools to choose from")
		}
		if len(p.chat.Tools) > 0 { // none of them may be the client's own
			p.chat.Choice.Mode = bridge.ToolRequired
		}
	case "tool":
		return r.name(p)
	default:
		return wire.At("tool_choice.type", `expected "auto", "any", "tool" or "none", got %s`, quote(c.Type))
	}
	return nil
}

// name reads the choice of one tool. That of one which is not offered, because
// it would run at Anthropic, is no choice: Claude Code's web search is asked
// for in this way.
func (r *request) name(p *prompt) error {
	name := r.ToolChoice.Name
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Name == name && !t.own() {
			return nil
		}
	}
	if !slices.ContainsFunc(p.chat.Tools, func(t bridge.ToolSpec) bool { return t.Name == name }) {
		return wire.At("tool_choice.name", "there is no tool called %s", quote(name))
	}
	p.chat.Choice = bridge.ToolChoice{Mode: bridge.ToolNamed, Name: name}
	return nil
}

// wrapped begins the ids of calls that the API's alphabet cannot show.
const wrapped = "toolu_bridge_"

// toolID is what clients get as the id of a call: the model's own, unless it
// has characters that this API does not allow.
func toolID(id string) string {
	if id != "" && !strings.HasPrefix(id, wrapped) && strings.IndexFunc(id, foreign) < 0 {
		return id
	}
	return wrapped + base64.RawURLEncoding.EncodeToString([]byte(id))
}

// callID undoes toolID. Ids that it never made are left as they are.
func callID(id string) string {
	coded, ok := strings.CutPrefix(id, wrapped)
	if !ok {
		return id
	}
	if plain, err := base64.RawURLEncoding.DecodeString(coded); err == nil && toolID(string(plain)) == id {
		return string(plain)
	}
	return id
}

func foreign(c rune) bool {
	return c != '_' && c != '-' && (c < '0' || '9' < c) && (c < 'A' || 'Z' < c) && (c < 'a' || 'z' < c)
}
