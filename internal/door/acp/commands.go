package acp

import (
	"context"
	"regexp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// offered are the commands of Copilot that clients get, besides the user's own
// skills. The others would change what the policy stands on (allow-all,
// add-dir, cwd, sandbox), reach beyond the session (share, remote, plugin,
// mcp, every), need Copilot's own terminal, or have a place in the protocol
// (model, autopilot). One that is new is not offered until somebody has
// thought about it.
var offered = map[string]bool{
	"blame": true, "compact": true, "context": true, "env": true, "init": true, "plan": true, "research": true, "review": true,
	"security-review": true, "usage": true,
}

// announce tells the client of the slash commands. Without them a session is
// as good.
func (s *session) announce(ctx context.Context) {
	list, err := s.live.Commands(ctx)
	if err != nil {
		s.door.opts.Logger.Warn("the commands are not known", "error", err)
		return
	}
	u := &acpwire.Commands{Type: acpwire.UpdateCommands}
	known := map[string]bool{}
	for _, c := range list {
		if c.Builtin && !offered[c.Name] || known[c.Name] {
			continue
		}
		known[c.Name] = true
		w := acpwire.Command{Name: c.Name, Description: c.Description}
		if c.Hint != "" {
			w.Input = &acpwire.CommandInput{Hint: c.Hint}
		}
		u.Available = append(u.Available, w)
	}
	s.mu.Lock()
	s.commands = known
	s.mu.Unlock()
	if err := s.update(ctx, u); err != nil {
		s.door.opts.Logger.Debug("announcing commands", "error", err)
	}
}

var slash = regexp.MustCompile(`(?s)^/([A-Za-z][A-Za-z0-9_:.-]*)(?:\s+(.*))?$`)

// command finds the command that a prompt is. One that was not offered is
// words for the model like any other.
func (s *session) command(text string) (name, input string, ok bool) {
	m := slash.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return "", "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return m[1], m[2], s.commands[m[1]]
}

// invoke runs a command, and says whether it made a prompt to go on with.
func (s *session) invoke(ctx context.Context, name, input string, p *bridge.Prompt) (again bool, err error) {
	r, err := s.live.Invoke(ctx, name, input)
	if err != nil {
		return false, err
	}
	if r.Text != "" {
		if err := s.update(ctx, &acpwire.Chunk{Type: acpwire.UpdateAgentMessage, Content: acpwire.Text(r.Text + "\n")}); err != nil {
			return false, err
		}
	}
	if _, known := modeOf(r.Mode); known {
		if err := s.enter(ctx, r.Mode); err != nil {
			return false, err
		}
	}
	p.Text, p.Mode = r.Prompt, ""
	return r.Prompt != "", nil
}
