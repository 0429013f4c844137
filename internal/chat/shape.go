package chat

import (
	"fmt"
	"regexp"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// shape is what a session is made for. Sessions of one shape can stand in for
// each other; conversations of different shapes have nothing in common. The
// working directory of agents is one for the whole service.
type shape struct {
	key    digest
	agent  bool // Copilot's own tools in a working directory: never used again
	model  string
	effort string
	system string
	tools  []bridge.ToolSpec // those that are offered
	names  map[string]bool   // of the tools
}

// toolName is what the runtime takes for a tool's name.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// shapeOf derives the shape of a request. What a choice of tools comes to is
// part of it: with "none" none are offered, with a name only that one.
func shapeOf(c *bridge.Chat) (*shape, error) {
	s := &shape{agent: c.Profile == bridge.ProfileAgent, model: c.Model, effort: c.Effort, system: c.System, names: map[string]bool{}}
	switch c.Choice.Mode {
	case bridge.ToolNone:
	case bridge.ToolNamed:
		for _, t := range c.Tools {
			if t.Name == c.Choice.Name {
				s.tools = []bridge.ToolSpec{t}
			}
		}
		if s.tools == nil {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the tool %q is to be called but is not among the tools", c.Choice.Name)}
		}
	case bridge.ToolRequired:
		if len(c.Tools) == 0 {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "a tool is to be called but there are no tools"}
		}
		s.tools = c.Tools
	case bridge.ToolAuto:
		s.tools = c.Tools
	default:
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("unknown choice of tools %q", c.Choice.Mode)}
	}
	d := newDigester()
	d.str(string(c.Profile))
	d.str(s.model)
	d.str(s.effort)
	d.str(s.system)
	d.tag('T', len(s.tools))
	for _, t := range s.tools {
		if s.names[t.Name] {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there are two tools named %q", t.Name)}
		}
		if !toolName.MatchString(t.Name) {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q cannot be the name of a tool", t.Name),
				Remedy: "use letters, digits, underscores and hyphens"}
		}
		s.names[t.Name] = true
		d.str(t.Name)
		d.str(t.Description)
		d.value(t.Schema)
	}
	s.key = d.sum()
	return s, nil
}

// own returns the calls of the client's tools among those of a message. The
// rest are Copilot's own, or of tools that do not exist, which the runtime
// answers by itself.
func (s *shape) own(calls []bridge.ToolCall) []bridge.ToolCall {
	var out []bridge.ToolCall
	for _, c := range calls {
		if s.names[c.Name] {
			out = append(out, c)
		}
	}
	return out
}
