package acp

import (
	"context"
	"encoding/json"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// person is the client's user as one who answers Copilot's questions.
type person struct{ *session }

// Ask implements bridge.Person by a form with one field.
func (p person) Ask(ctx context.Context, q bridge.Question) (bridge.Answer, error) {
	field := map[string]any{"type": "string", "title": "Answer"}
	if len(q.Choices) > 0 && !q.Freeform {
		field["enum"] = q.Choices
	} else if len(q.Choices) > 0 {
		field["description"] = "One of these, or an answer of your own: " + quoted(q.Choices)
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"answer": field}, "required": []string{"answer"}})
	if err != nil {
		return bridge.Answer{}, err
	}
	a, err := p.Elicit(ctx, bridge.Elicitation{Message: q.Text, Schema: schema})
	if err != nil {
		return bridge.Answer{}, err
	}
	text, ok := a.Content["answer"].(string)
	if a.Action != "accept" || !ok {
		return bridge.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "the user does not want to answer"}
	}
	for _, c := range q.Choices {
		if c == text {
			return bridge.Answer{Text: text}, nil
		}
	}
	return bridge.Answer{Text: text, Freeform: true}, nil
}

func quoted(list []string) string {
	b, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	return string(b)
}

// Elicit implements bridge.Person. What the client cannot show is declined.
func (p person) Elicit(ctx context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	if e.URL != "" {
		return bridge.ElicitationAnswer{Action: "decline"}, nil
	}
	r := acpwire.ElicitRequest{Message: e.Message, Mode: "form", SessionID: p.live.ID(), RequestedSchema: e.Schema}
	if len(r.RequestedSchema) == 0 {
		r.RequestedSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	var a acpwire.ElicitResponse
	if err := p.door.conn.Call(ctx, acpwire.MethodElicit, r, &a); err != nil {
		return bridge.ElicitationAnswer{}, err
	}
	switch a.Action {
	case "accept", "decline", "cancel":
		return bridge.ElicitationAnswer{Action: a.Action, Content: a.Content}, nil
	}
	return bridge.ElicitationAnswer{Action: "cancel"}, nil
}
