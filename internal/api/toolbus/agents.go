package toolbus

import (
	"context"
	"encoding/json"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Sessions are the open sessions of agents in this bridge. Its methods are called
// concurrently.
type Sessions interface {
	Sessions() []Session
	// Say adds a message to the running turn of a session: at once, or for after it.
	Say(ctx context.Context, id, text string, after bool) error
	// Stop ends the running turn; without one it does nothing.
	Stop(ctx context.Context, id string) error
}

// Session is an open session of an agent.
type Session struct {
	ID        string `json:"id"`
	API       string `json:"api" jsonschema:"that it belongs to"`
	Model     string `json:"model,omitempty"`
	Directory string `json:"directory"`
	Running   bool   `json:"running" jsonschema:"whether a turn runs"`
}

type sessionList struct {
	Sessions []Session `json:"sessions"`
}

type sessionParams struct {
	Session string `json:"session" jsonschema:"its id"`
}

type sayParams struct {
	Session string `json:"session" jsonschema:"its id"`
	Text    string `json:"text" jsonschema:"the message"`
	When    string `json:"when,omitempty" enum:"now,after" jsonschema:"whether the model hears it with its next request, or when the turn would end (default now)"`
}

// Question is what an agent asks a person, as clients see it.
type Question struct {
	ID      string          `json:"id"`
	Message string          `json:"message"`
	Source  string          `json:"source,omitempty" jsonschema:"the MCP server that asks, if one does"`
	Schema  json.RawMessage `json:"schema,omitempty" jsonschema:"JSON schema of the form to fill in"`
	URL     string          `json:"url,omitempty" jsonschema:"a page to open in a browser instead"`
}

type replyParams struct {
	ID      string         `json:"id" jsonschema:"that of the question"`
	Action  string         `json:"action" enum:"accept,decline,cancel" jsonschema:"whether the person answers, refuses to, or leaves it"`
	Content map[string]any `json:"content,omitempty" jsonschema:"the filled form, for accept"`
}

// Person puts the questions of agents to clients, or is nil if none has subscribed
// to them.
func (h *Hub) Person() bridge.Person {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.subs {
		if s.agents {
			return asked{h}
		}
	}
	return nil
}

type asked struct{ hub *Hub }

// Ask implements bridge.Person.
func (p asked) Ask(ctx context.Context, q bridge.Question) (bridge.Answer, error) {
	return approval.ByForm(ctx, q, p.Elicit)
}

// Elicit implements bridge.Person.
func (p asked) Elicit(ctx context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	q := &question{agent: &Question{Message: approval.Lines(e.Message), Source: approval.Visible(e.Source), Schema: e.Schema, URL: e.URL}}
	answered, err := p.hub.put(ctx, q)
	if err == nil && !answered {
		err = &bridge.Error{Code: bridge.CodeDenied, Message: "nobody is there to answer"}
	}
	return q.reply, err
}

// reply gives a question of an agent its answer, if it is the first.
func (h *Hub) reply(by *conn, p replyParams) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	q, err := h.find(p.ID, true)
	if err != nil {
		return err
	}
	q.reply = bridge.ElicitationAnswer{Action: p.Action, Content: p.Content}
	h.answered(q, by)
	return nil
}

// sessions are the methods for clients that watch agents at work.
func (d *door) sessions() []method {
	const id = "41bd9d7b-6ca9-4456-8e46-cff520d7b61e"
	return []method{
		define("bridge.sessions.list", "List the open sessions of agents",
			func(context.Context, *call, none) (sessionList, error) {
				return sessionList{some(d.opts.Sessions.Sessions())}, nil
			}, none{}, sessionList{[]Session{{ID: id, API: "openai", Model: "gpt-5", Directory: "/home/me/src/app", Running: true}}}),
		define("bridge.session.send", "Add a message to the running turn of a session",
			func(ctx context.Context, _ *call, p sayParams) (none, error) {
				if p.Text == "" {
					return none{}, wire.At("params.text", "it is empty")
				}
				return none{}, d.opts.Sessions.Say(ctx, p.Session, p.Text, p.When == "after")
			}, sayParams{Session: id, Text: "Leave the tests as they are.", When: "now"}, none{}).
			explained("The answer goes to whoever began the turn."),
		define("bridge.session.stop", "End the running turn of a session",
			func(ctx context.Context, _ *call, p sessionParams) (none, error) {
				return none{}, d.opts.Sessions.Stop(ctx, p.Session)
			}, sessionParams{Session: id}, none{}),
	}
}
