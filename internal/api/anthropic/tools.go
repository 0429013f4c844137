package anthropic

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// changes are the tools that a conversation loads, adds and removes.
type changes struct {
	offered map[string]bool // true: loaded or added, false: removed
	defined []tool
}

func (c *changes) change(b *block) {
	t := b.Tool
	switch {
	case b.Type == "tool_removal":
		c.offered[t.Name] = false
	case t.Definition != nil:
		c.defined = append(c.defined, *t.Definition)
		c.offered[t.Definition.Name] = true
	default:
		c.offered[t.Name] = true
	}
}

func (c *changes) removed(name string) bool {
	offered, ok := c.offered[name]
	return ok && !offered
}

// own reports whether the client defines the tool. Anthropic defines the others.
func (t *tool) own() bool { return t.Type == "" || t.Type == "custom" }

// offer fills in the tools that the model may call, and whether it must.
func (r *request) offer(p *prompt, c changes) error {
	// The bridge does not search for tools for the model. Where Anthropic would,
	// all of them are offered.
	all := slices.ContainsFunc(r.Tools, func(t tool) bool { return strings.HasPrefix(t.Type, "tool_search_tool") })
	names := make(map[string]bool, len(r.Tools))
	for i := range r.Tools {
		t := &r.Tools[i]
		path := index("tools", i)
		switch {
		case !t.own():
			p.dropped = append(p.dropped, join(" ", t.Type, t.Name))
			continue
		case t.Name == "":
			return wire.At(path+".name", "the field is required")
		case t.Schema == nil:
			return wire.At(path+".input_schema", "the field is required")
		case names[t.Name]:
			return wire.At(path+".name", "there are two tools called %.64q", t.Name)
		}
		names[t.Name] = true
		if !c.removed(t.Name) && (all || !t.Deferred || c.offered[t.Name]) {
			p.chat.Tools = append(p.chat.Tools, t.spec())
		}
	}
	for i := range c.defined {
		t := &c.defined[i]
		if t.Name != "" && t.own() && !names[t.Name] && !c.removed(t.Name) {
			names[t.Name] = true
			p.chat.Tools = append(p.chat.Tools, t.spec())
		}
	}
	return r.choose(p)
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
		return wire.At("tool_choice.type", `expected "auto", "any", "tool" or "none", got %.64q`, c.Type)
	}
	return nil
}

// name reads the choice of one tool. A tool that runs at Anthropic is no choice:
// Claude Code's web search asks in this way.
func (r *request) name(p *prompt) error {
	name := r.ToolChoice.Name
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Name == name && !t.own() {
			return nil
		}
	}
	if !slices.ContainsFunc(p.chat.Tools, func(t bridge.ToolSpec) bool { return t.Name == name }) {
		return wire.At("tool_choice.name", "there is no tool called %.64q", name)
	}
	p.chat.Choice = bridge.ToolChoice{Mode: bridge.ToolNamed, Name: name}
	return nil
}

// wrapped begins the ids of calls that the API's alphabet cannot show.
const wrapped = "toolu_bridge_"

// toolID is the id of a call for clients: the model's own, if this API allows it.
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
