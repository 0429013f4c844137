package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// omitted stands for messages beyond the bounds.
const omitted = "[earlier messages are left out]\n"

// replay turns messages into one prompt for a session that knows none of them.
// The runtime can be sent several messages of the user only, so those of the
// assistant and the tools are told as text:
//
//	[SYSTEM]
//	…
//	[DIALOG]
//	user: …
//	assistant: …
//
// The system text of the chat is the session's own system message already;
// [SYSTEM] holds only the system messages from inside the dialogue, and is
// left out if there are none. Messages of the user alone need no wrapping.
//
// Texts are told as they came. bytes, if positive, bounds the text of the
// dialogue and turns, if positive, the user's earlier turns; the newest are
// kept. The user's last message and all that is newer than the last answer are
// kept whatever their size, and a tool call stays with its results.
func (t *tools) replay(messages []bridge.Message, bytes, turns int) bridge.Prompt {
	if plain(messages) {
		return joined(messages)
	}
	var system []string
	var units []unit
	lastUser := -1
	for i := 0; i < len(messages); i++ {
		m := &messages[i]
		switch m.Role {
		case bridge.RoleSystem:
			if t := strings.TrimSpace(m.Text); t != "" {
				system = append(system, t)
			}
			continue
		case bridge.RoleUser:
			lastUser = len(units)
		case bridge.RoleAssistant, bridge.RoleTool:
		}
		end := i + 1
		if m.Role == bridge.RoleAssistant && len(m.Calls) > 0 || m.Role == bridge.RoleTool {
			for end < len(messages) && messages[end].Role == bridge.RoleTool {
				end++
			}
		}
		units = append(units, unit{messages: messages[i:end], user: m.Role == bridge.RoleUser})
		i = end - 1
	}
	keep(units, lastUser, bytes, turns)
	var p bridge.Prompt
	var b strings.Builder
	if len(system) > 0 {
		b.WriteString("[SYSTEM]\n" + strings.Join(system, "\n") + "\n")
	}
	b.WriteString("[DIALOG]\n")
	names := map[string]string{}
	gap := false
	for _, u := range units {
		if !u.kept {
			gap = true
			continue
		}
		if gap {
			b.WriteString(omitted)
			gap = false
		}
		for i := range u.messages {
			t.write(&b, &p, &u.messages[i], names)
		}
	}
	p.Text = b.String()
	return p
}

// unit is a group of messages that is kept or left out as a whole.
type unit struct {
	messages []bridge.Message
	user     bool
	kept     bool
}

func (u *unit) size() int {
	n := 0
	for i := range u.messages {
		n += len(u.messages[i].Text) + 16
		for _, c := range u.messages[i].Calls {
			n += len(argumentText(c.Args)) + len(c.Name) + len(c.ID) + 24
		}
	}
	return n
}

// keep marks what fits, the newest first.
func keep(units []unit, lastUser, bytes, turns int) {
	fresh := len(units)
	for fresh > 0 && units[fresh-1].user {
		fresh--
	}
	fits, earlier, size := true, 0, 0
	for i := len(units) - 1; i >= 0; i-- {
		u := &units[i]
		must := i == lastUser || i >= fresh || i == len(units)-1
		if u.user && i < lastUser {
			earlier++
		}
		if size += u.size(); bytes > 0 && size > bytes || turns > 0 && earlier > turns {
			fits = false
		}
		if turns > 0 && earlier == turns && i < lastUser && !u.user {
			fits = false // the answer to a turn that is too old
		}
		u.kept = must || fits
	}
}

func (t *tools) write(b *strings.Builder, p *bridge.Prompt, m *bridge.Message, names map[string]string) {
	switch m.Role {
	case bridge.RoleAssistant:
		if m.Text != "" {
			fmt.Fprintf(b, "assistant: %s\n", m.Text)
		}
		for _, c := range m.Calls {
			names[c.ID] = t.seen(c.Name)
			fmt.Fprintf(b, "assistant called %s (%s): %s\n", names[c.ID], c.ID, argumentText(c.Args))
		}
	case bridge.RoleTool:
		verb := ""
		if m.Failed {
			verb = " failed"
		}
		fmt.Fprintf(b, "tool %s (%s)%s: %s\n", names[m.CallID], m.CallID, verb, m.Text)
	case bridge.RoleUser:
		fmt.Fprintf(b, "user: %s\n", m.Text)
	case bridge.RoleSystem:
	}
	for _, a := range m.Attachments {
		p.Attachments = append(p.Attachments, a)
		fmt.Fprintf(b, "[attachment %d: %s]\n", len(p.Attachments), label(a))
	}
}

func label(a bridge.Attachment) string {
	for _, s := range []string{a.Name, a.Path, a.MIME} {
		if s != "" {
			return s
		}
	}
	return "file"
}

func argumentText(v any) string {
	b, err := json.Marshal(arguments(v))
	if err != nil {
		return "{}"
	}
	return string(b)
}

// plain reports whether all messages are the user's.
func plain(messages []bridge.Message) bool {
	for i := range messages {
		if messages[i].Role != bridge.RoleUser {
			return false
		}
	}
	return true
}

// joined is a prompt of the user's messages as they are.
func joined(messages []bridge.Message) bridge.Prompt {
	if len(messages) == 1 {
		return bridge.Prompt{Text: messages[0].Text, Attachments: messages[0].Attachments}
	}
	var p bridge.Prompt
	var texts []string
	for i := range messages {
		if messages[i].Text != "" {
			texts = append(texts, messages[i].Text)
		}
		p.Attachments = append(p.Attachments, messages[i].Attachments...)
	}
	p.Text = strings.Join(texts, "\n\n")
	return p
}
