package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Words that a person can type in place of an answer. They begin with a
// slash, so that an answer can hardly be meant.
const (
	wordDecline = "/decline"
	wordCancel  = "/cancel"
)

// Actions of a bridge.ElicitationAnswer.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// Person returns the person at the terminal as one who answers the agent's
// questions. It shares the terminal's input and order of questions.
func (t *Terminal) Person() bridge.Person { return person{t} }

type person struct{ t *Terminal }

// Ask puts a question, with numbered choices if it has any.
func (p person) Ask(ctx context.Context, q bridge.Question) (bridge.Answer, error) {
	release, err := p.t.take(ctx)
	if err != nil {
		return bridge.Answer{}, err
	}
	defer release()
	p.t.print("? " + paragraph(q.Text) + "\n")
	for i, c := range q.Choices {
		p.t.print(fmt.Sprintf("  %d) %s\n", i+1, Visible(c)))
	}
	hint := "an answer"
	switch {
	case len(q.Choices) > 0 && q.Freeform:
		hint = "a number, or an answer of your own"
	case len(q.Choices) > 0:
		hint = "a number"
	}
	p.t.print("  Type " + hint + ", or " + wordCancel + ".\n")
	for {
		text, err := p.t.read(ctx, "> ")
		if err != nil {
			return bridge.Answer{}, unanswered(err)
		}
		text = strings.TrimSpace(text)
		if text == wordCancel || text == wordDecline {
			return bridge.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "the user does not want to answer"}
		}
		if choice, ok := choose(q.Choices, text); ok {
			return bridge.Answer{Text: choice}, nil
		}
		if text != "" && (q.Freeform || len(q.Choices) == 0) {
			return bridge.Answer{Text: text, Freeform: true}, nil
		}
		p.t.print("  Please type " + hint + ".\n")
	}
}

// ByForm puts a question as a form with one field, to those who can show forms.
func ByForm(ctx context.Context, q bridge.Question, elicit func(context.Context, bridge.Elicitation) (bridge.ElicitationAnswer, error)) (bridge.Answer, error) {
	field := map[string]any{"type": "string", "title": "Answer"}
	if len(q.Choices) > 0 && !q.Freeform {
		field["enum"] = q.Choices
	} else if len(q.Choices) > 0 {
		field["description"] = fmt.Sprintf("One of these, or an answer of your own: %q", q.Choices)
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"answer": field}, "required": []string{"answer"}})
	if err != nil {
		return bridge.Answer{}, err
	}
	a, err := elicit(ctx, bridge.Elicitation{Message: q.Text, Schema: schema})
	if err != nil {
		return bridge.Answer{}, err
	}
	text, ok := a.Content["answer"].(string)
	if a.Action != actionAccept || !ok {
		return bridge.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "the user does not want to answer"}
	}
	return bridge.Answer{Text: text, Freeform: !slices.Contains(q.Choices, text)}, nil
}

// choose finds a choice by its number or its text.
func choose(choices []string, text string) (string, bool) {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(choices) {
		return choices[n-1], true
	}
	for _, c := range choices {
		if text != "" && strings.EqualFold(strings.TrimSpace(c), text) {
			return c, true
		}
	}
	return "", false
}

// Elicit asks for each field of a form in turn.
func (p person) Elicit(ctx context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	fields, formErr := decodeForm(e.Schema)
	release, err := p.t.take(ctx)
	if err != nil {
		return bridge.ElicitationAnswer{}, err
	}
	defer release()
	from := ""
	if e.Source != "" {
		from = Visible(e.Source) + " asks: "
	}
	p.t.print("? " + from + paragraph(e.Message) + "\n")
	if formErr != nil {
		p.t.print("  It cannot be asked here (" + Visible(formErr.Error()) + ") and is declined.\n")
		return bridge.ElicitationAnswer{Action: actionDecline}, nil
	}
	if e.URL != "" {
		p.t.print("  Open this in your browser: " + Visible(e.URL) + "\n")
		fields = append(fields, field{property: property{Type: kindDone}})
	}
	p.t.print("  " + wordDecline + " refuses, " + wordCancel + " gives no answer.\n")
	content := map[string]any{}
	for _, f := range fields {
		value, action, err := p.fill(ctx, f)
		if err != nil {
			return bridge.ElicitationAnswer{}, unanswered(err)
		}
		if action != actionAccept {
			return bridge.ElicitationAnswer{Action: action}, nil
		}
		if value != nil && f.name != "" {
			content[f.name] = value
		}
	}
	return bridge.ElicitationAnswer{Action: actionAccept, Content: content}, nil
}

// fill asks for one field until the answer fits. A nil value leaves it out.
func (p person) fill(ctx context.Context, f field) (value any, action string, err error) {
	p.t.print(f.heading())
	for {
		text, err := p.t.read(ctx, f.prompt())
		if err != nil {
			return nil, "", err
		}
		switch strings.TrimSpace(text) {
		case wordDecline:
			return nil, actionDecline, nil
		case wordCancel:
			return nil, actionCancel, nil
		}
		value, err := f.parse(text)
		if err == nil {
			return value, actionAccept, nil
		}
		p.t.print("  It must be " + err.Error() + ".\n")
	}
}

// paragraph keeps the lines of a text and makes each of them visible.
func paragraph(s string) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	for i := range all {
		all[i] = Visible(strings.TrimRight(all[i], "\r"))
	}
	return strings.Join(all, "\n  ")
}
