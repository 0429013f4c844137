package editortest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// Play answers by the "rehearsal:" lines of the user's last script, as the
// demo model does: text, chunks, thinking, usage, tool, delay, silence,
// status, fault KIND and, between requests of one turn, next. Without a script
// it says what it has heard last.
func Play(ctx context.Context, r editor.ChatRequest, say func(editor.Part)) *editor.Fault {
	script, round := script(r.Messages)
	if script == nil {
		say(editor.Part{Type: editor.PartText, Text: "You said: " + lastText(r.Messages)})
		return nil
	}
	calls := 0
	for _, line := range script {
		verb, rest, _ := strings.Cut(line, " ")
		if verb == "next" {
			round--
			continue
		}
		if round != 0 {
			continue
		}
		switch verb {
		case "text":
			say(editor.Part{Type: editor.PartText, Text: rest})
		case "chunks":
			for c := range strings.SplitSeq(rest, "|") {
				say(editor.Part{Type: editor.PartText, Text: c})
			}
		case "thinking":
			say(editor.Part{Type: editor.PartThinking, Text: rest})
		case "usage":
			p := editor.Part{Type: editor.PartUsage}
			if _, err := fmt.Sscan(rest, &p.InputTokens, &p.OutputTokens); err != nil {
				return Fault(editor.KindInternal, err.Error())
			}
			say(p)
		case "tool":
			name, args, _ := strings.Cut(rest, " ")
			calls++
			say(editor.Part{Type: editor.PartToolCall, CallID: fmt.Sprintf("call_%d_%d", len(r.Messages), calls), Name: name, Input: json.RawMessage(args)})
		case "delay":
			d, err := time.ParseDuration(rest)
			if err != nil {
				return Fault(editor.KindInternal, err.Error())
			}
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return nil // a canceled stream ends without an error
			}
		case "silence":
			<-ctx.Done()
			return nil
		case "status":
			return Fault(editor.KindTooLong, rest)
		case "fault":
			kind, text, _ := strings.Cut(rest, " ")
			return Fault(editor.Kind(kind), text)
		default:
			return Fault(editor.KindInternal, "no directive "+verb)
		}
	}
	return nil
}

// script finds the user's last script, and how many answers it has had.
func script(messages []editor.Message) (lines []string, round int) {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role == editor.RoleAssistant {
			round++
			continue
		}
		for _, p := range m.Parts {
			for line := range strings.Lines(p.Text) {
				if d, ok := strings.CutPrefix(strings.TrimPrefix(line, "user: "), "rehearsal: "); ok && p.Type == editor.PartText {
					lines = append(lines, strings.TrimRight(d, "\n"))
				}
			}
		}
		if lines != nil {
			return lines, round
		}
	}
	return nil, 0
}

func lastText(messages []editor.Message) string {
	for _, p := range messages[len(messages)-1].Parts {
		if p.Type == editor.PartText || p.Type == editor.PartToolResult {
			return p.Text
		}
	}
	return ""
}
