package rehearsal

import (
	"regexp"
	"strings"
)

// turn is where a request stands: what the user said last, and what the model
// and its tools have done since. Everything about a turn is read from the
// request, so it survives restarts and needs no session state here.
type turn struct {
	user   string
	rounds []round
}

// round is one assistant message and the results of its calls.
type round struct {
	calls   []Call
	results []string // one for each call; "" where none came
}

// noticeTag matches what the runtime adds to users' messages.
var noticeTag = regexp.MustCompile(`(?s)<(current_datetime|system_reminder|reminder|system_notification)>.*?</(current_datetime|system_reminder|reminder|system_notification)>`)

func (r *Request) turn() turn {
	var t turn
	last := -1
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role != "user" {
			continue
		}
		// A message of nothing but notices is the runtime talking, not the user.
		if text := spoken(r.Messages[i].Content); text != "" {
			t.user, last = text, i
			break
		}
	}
	t.user, t.rounds = dialog(t.user)
	for _, m := range r.Messages[last+1:] {
		switch m.Role {
		case "assistant":
			t.rounds = append(t.rounds, round{calls: m.ToolCalls, results: make([]string, len(m.ToolCalls))})
		case "tool":
			if len(t.rounds) > 0 {
				t.rounds[len(t.rounds)-1].answer(m.ToolCallID, m.Content)
			}
		}
	}
	return t
}

func spoken(content string) string {
	return strings.TrimSpace(noticeTag.ReplaceAllString(content, ""))
}

func (r *round) answer(id, content string) {
	for i := range r.calls {
		if r.calls[i].ID == id {
			r.results[i] = content
			return
		}
	}
}

// dialog looks into a prompt that holds a whole conversation, which is how a
// fresh session gets its history: the user is the last one who speaks in it.
func dialog(text string) (string, []round) {
	_, talk, ok := strings.Cut(text, "[DIALOG]\n")
	if !ok {
		return text, nil
	}
	type speech struct {
		role       string
		start, end int // in talk, without the role
	}
	var lines []speech
	for at := 0; at < len(talk); {
		end := len(talk)
		if n := strings.IndexByte(talk[at:], '\n'); n >= 0 {
			end = at + n
		}
		role, _, found := strings.Cut(talk[at:end], ": ")
		switch {
		case found && (role == "user" || role == "assistant" || role == "tool"):
			lines = append(lines, speech{role, at + len(role) + 2, end})
		case len(lines) > 0:
			lines[len(lines)-1].end = end
		}
		at = end + 1
	}
	user := -1
	for i := range lines {
		if lines[i].role == "user" {
			user = i
		}
	}
	if user < 0 {
		return text, nil
	}
	var rounds []round
	for _, l := range lines[user+1:] {
		switch {
		case l.role == "assistant":
			rounds = append(rounds, round{})
		case len(rounds) > 0:
			last := &rounds[len(rounds)-1]
			last.calls = append(last.calls, Call{})
			last.results = append(last.results, strings.TrimSpace(talk[l.start:l.end]))
		}
	}
	return strings.TrimSpace(talk[lines[user].start:lines[user].end]), rounds
}
