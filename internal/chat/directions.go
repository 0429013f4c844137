package chat

import (
	"encoding/json"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// The runtime has no parameters for these wishes, so they are told to the
// model in words, at the end of the prompt.
const (
	sayCallTool = "Answer by calling at least one of the tools that you have."
	sayCallThis = "Answer by calling the tool %s."
	sayOneCall  = "Call at most one tool at a time."
	sayJSON     = "Answer with one JSON object and nothing else: no code fence, no text around it."
)

// anyObject is the schema of json_object.
var anyObject = json.RawMessage(`{"type":"object"}`)

// direct adds what the request wishes of the answer to its prompt.
func (s *Service) direct(p *bridge.Prompt, c *bridge.Chat, sh *shape) {
	say := func(format string, args ...any) {
		if p.Text != "" {
			p.Text += "\n\n"
		}
		p.Text += fmt.Sprintf(format, args...)
	}
	switch c.Choice.Mode {
	case bridge.ToolRequired:
		p.MustCall = true
		say(sayCallTool)
	case bridge.ToolNamed:
		p.MustCall = true
		say(sayCallThis, c.Choice.Name)
	case bridge.ToolAuto, bridge.ToolNone:
	}
	if c.OneCall && len(sh.tools) > 1 {
		say(sayOneCall)
	}
	p.ResponseFormat = c.ResponseFormat
	if c.JSON && c.ResponseFormat == nil {
		say(sayJSON)
		if s.looseSchemas() {
			p.ResponseFormat = &bridge.ResponseFormat{Name: "object", Schema: anyObject}
		}
	}
	if p.Text == "" && len(p.Attachments) > 0 {
		p.Text = "See what is attached."
	}
}

// looseSchemas says that the provider takes a schema that allows any object,
// which is how its JSON mode is reached: the runtime passes on schemas only.
// Anthropic and some of GitHub's models take none but closed schemas.
func (s *Service) looseSchemas() bool {
	switch s.opts.ProviderKind {
	case "openai", "azure", "ollama":
		return true
	}
	return false
}

// formatKey names what a turn's answer is bound to. It holds for the whole
// turn, so a parked one can only go on under the same.
func formatKey(c *bridge.Chat) digest {
	d := newDigester()
	d.value(c.JSON)
	if f := c.ResponseFormat; f != nil {
		d.str(f.Name)
		d.str(string(f.Schema))
		d.value(f.Strict)
	}
	return d.sum()
}
