package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

// byTop is where an answer or an order of top comes from, in the record.
const byTop = "terminal dashboard"

// questionPage is one question, whole. It can be allowed only after its last
// row was on the screen.
type questionPage struct {
	q     live.Question
	first int
	room  int
	seen  bool   // its end
	gone  string // why it needs no answer any more
}

func (p *questionPage) refresh(t *top) {
	open := slices.ContainsFunc(t.board.Approvals, func(q live.Question) bool { return q.ID == p.q.ID })
	if open || p.gone != "" {
		return
	}
	p.gone = "the question needs no answer any more"
	if t.o.Gone != nil {
		if err := t.o.Gone(p.q); err != nil {
			p.gone = approval.Visible(err.Error())
		}
	}
	t.typing = nil
}

func (p *questionPage) rows(t *top, columns, rows int) []liveLine {
	var all []liveLine
	for _, row := range rowsOf("? "+approval.Visible(p.q.Lead), columns) {
		all = append(all, liveLine{row, t.s.loud})
	}
	body := []string{}
	if p.q.Body != "" {
		body = append(body, approval.Lines(p.q.Body))
	}
	if p.q.Form != nil {
		body = append(body, formText(*p.q.Form))
	}
	for _, row := range rowsOf(strings.Join(body, "\n"), columns-2) {
		all = append(all, liveLine{"  " + row, t.s.diff(row)})
	}
	all = append(all, liveLine{})
	for _, row := range rowsOf(p.about(t), columns) {
		all = append(all, liveLine{row, t.s.dim})
	}
	p.room = rows
	out := window(all, &p.first, rows)
	p.seen = p.seen || p.first+len(out) == len(all)
	return out
}

// about is where a question comes from, and until when it waits.
func (p *questionPage) about(t *top) string {
	parts := []string{}
	for _, part := range []string{p.q.Door, p.q.Client, Shorten(p.q.Dir, "", t.o.Home), strings.Join(p.q.Agents, " › "), p.q.Reason} {
		if part != "" {
			parts = append(parts, approval.Visible(part))
		}
	}
	if p.q.Rule != "" {
		parts = append(parts, "rule "+approval.Visible(p.q.Rule))
	}
	parts = append(parts, "asked "+Age(t.now().Sub(p.q.Asked))+" ago")
	if left := p.q.Until.Sub(t.now()); !p.q.Until.IsZero() && left > 0 {
		parts = append(parts, "denied in "+Age(left)+" without an answer")
	}
	return strings.Join(parts, " · ")
}

// diff paints the lines of a diff.
func (s style) diff(line string) func(string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return s.green
	case strings.HasPrefix(line, "-"):
		return s.red
	}
	return nil
}

// formText is what an agent wants to know.
func formText(f live.Form) string {
	var lines []string
	for i, c := range f.Choices {
		lines = append(lines, fmt.Sprintf("%d) %s", i+1, approval.Visible(c)))
	}
	for _, field := range f.Fields {
		line := approval.Visible(field.About)
		if len(field.Choices) > 0 {
			line += " (" + approval.Visible(strings.Join(field.Choices, ", ")) + ")"
		}
		lines = append(lines, line)
	}
	if f.Source != "" {
		lines = append(lines, "asked by the MCP server "+approval.Visible(f.Source))
	}
	if f.URL != "" {
		lines = append(lines, "open in a browser: "+approval.Visible(f.URL))
	}
	return strings.Join(lines, "\n")
}

// answerKeys are the keys of the answers, in the order in which they are offered.
var answerKeys = []struct{ answer, key, words string }{
	{live.Once, "o", "o once"}, {live.Session, "s", "s session"}, {live.Always, "a", "a always"}, {live.Deny, "d", "d deny"},
	{live.Text, "t", "t answer"}, {live.Decline, "d", "d decline"}, {live.Cancel, "c", "c cancel"},
}

func (p *questionPage) keys(t *top) string {
	switch {
	case p.gone != "":
		return p.gone + "  ·  q back"
	case t.o.Answer == nil:
		return t.o.Why + "  ·  q back"
	}
	words := []string{}
	for _, k := range answerKeys {
		if slices.Contains(p.q.Answers, k.answer) && (p.seen || !allows(k.answer)) {
			words = append(words, k.words)
		}
	}
	if !p.seen {
		words = append(words, "↓ the rest must be read before it can be allowed")
	}
	return strings.Join(append(words, "q back"), "  ")
}

// allows says whether an answer lets something happen.
func allows(answer string) bool {
	return answer == live.Once || answer == live.Session || answer == live.Always
}

func (p *questionPage) press(t *top, k key) {
	if scroll(k, &p.first, p.room) || p.gone != "" || t.o.Answer == nil {
		return
	}
	for _, a := range answerKeys {
		pressed := k.is(a.key) || a.answer == live.Text && k.code == keyEnter
		if pressed && slices.Contains(p.q.Answers, a.answer) && (p.seen || !allows(a.answer)) {
			p.chosen(t, a.answer)
			return
		}
	}
}

// chosen gives an answer, after what else must be said.
func (p *questionPage) chosen(t *top, answer string) {
	switch {
	case answer == live.Always:
		t.typing = &typing{prompt: "Type y to write into your policy file " + approval.Visible(strings.Join(p.q.Always, ", ")) + ": ", enter: func(text string) {
			if strings.EqualFold(text, "y") || strings.EqualFold(text, "yes") {
				p.reply(t, live.Reply{Answer: answer})
			}
		}}
	case answer == live.Deny:
		t.typing = &typing{prompt: "Why, for the agent (Enter for no reason, Esc to go back): ", enter: func(text string) { p.reply(t, live.Reply{Answer: answer, Reason: text}) }}
	case answer == live.Text && p.q.Form != nil && len(p.q.Form.Fields) > 0:
		p.field(t, 0, map[string]string{})
	case answer == live.Text && p.q.Form != nil && p.q.Form.URL != "" && len(p.q.Form.Choices) == 0 && !p.q.Form.Freeform:
		p.reply(t, live.Reply{Answer: answer})
	case answer == live.Text:
		t.typing = &typing{prompt: "> ", enter: func(text string) { p.answered(t, text) }}
	default:
		p.reply(t, live.Reply{Answer: answer})
	}
}

// answered gives a text, or the choice that its number names.
func (p *questionPage) answered(t *top, text string) {
	var form live.Form
	if p.q.Form != nil {
		form = *p.q.Form
	}
	text, ok := choiceOf(form.Choices, text)
	if text == "" || !ok && len(form.Choices) > 0 && !form.Freeform {
		t.say("one of the choices is wanted")
		return
	}
	p.reply(t, live.Reply{Answer: live.Text, Text: text})
}

// choiceOf is the choice that a text is, or whose number it is.
func choiceOf(choices []string, text string) (string, bool) {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(choices) {
		return choices[n-1], true
	}
	return text, slices.Contains(choices, text)
}

// field asks for one field of a form after the other.
func (p *questionPage) field(t *top, i int, got map[string]string) {
	if i == len(p.q.Form.Fields) {
		p.reply(t, live.Reply{Answer: live.Text, Fields: got})
		return
	}
	f := p.q.Form.Fields[i]
	prompt := approval.Visible(f.Name)
	if f.Default != "" {
		prompt += " [" + approval.Visible(f.Default) + "]"
	}
	t.typing = &typing{prompt: prompt + ": ", enter: func(text string) {
		if text == "" {
			text = f.Default
		}
		text, _ = choiceOf(f.Choices, text) // who asked checks it
		if text != "" {
			got[f.Name] = text
		}
		p.field(t, i+1, got)
	}}
}

func (p *questionPage) reply(t *top, r live.Reply) {
	r.By = byTop
	err := t.o.Answer(p.q, r)
	t.refresh()
	if err != nil {
		t.say("! " + approval.Visible(Shown(err).Error()))
		return
	}
	t.back()
	t.say(r.Said() + ": " + approval.Visible(p.q.Lead))
}
