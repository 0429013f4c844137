package demomodel

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

// noticeTag matches what the runtime, coding agents and the bridge add to users'
// messages.
var noticeTag = regexp.MustCompile(`(?s)<(?:current_datetime|system[_-]reminder|reminder|system_notification|environment_context)>.*?` +
	`</(?:current_datetime|system[_-]reminder|reminder|system_notification|environment_context)>|Call at most one tool at a time\.\s*$`)

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
	marks := speaker.FindAllStringSubmatchIndex(talk, -1)
	spoken, user := make([]string, len(marks)), -1
	roles := make([]string, len(marks))
	for i, m := range marks {
		end := len(talk)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		roles[i], spoken[i] = talk[m[2]:m[3]], strings.TrimSpace(talk[m[1]:end])
		if roles[i] == "user" {
			user = i
		}
	}
	if user < 0 {
		return text, nil
	}
	var rounds []round
	for i := user + 1; i < len(marks); i++ {
		switch {
		case roles[i] == "assistant":
			rounds = append(rounds, round{})
		case len(rounds) > 0:
			last := &rounds[len(rounds)-1]
			last.calls, last.results = append(last.calls, Call{}), append(last.results, spoken[i])
		}
	}
	return spoken[user], rounds
}

// speaker begins a message of such a prompt.
var speaker = regexp.MustCompile(`(?m)^(user|assistant|tool): `)
