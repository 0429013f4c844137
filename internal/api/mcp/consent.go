package mcp

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

type clientKey struct{}

// Asker asks the client whose call it is about, which it finds in the context.
// It is for guards that are shared by several clients.
type Asker struct{}

// Ask implements approval.Asker.
func (Asker) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	if c := clientOf(ctx); c != nil {
		return c.Ask(ctx, q)
	}
	return approval.Answer{}, unasked("nobody is there to give it")
}

func unasked(why string) error {
	return &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval, and " + why, Remedy: "allow it in a policy, see docs/guides/policy.md"}
}

// client is the other end of a call. It puts questions to the person there, by
// elicitation.
type client struct {
	ctx context.Context // of the call: over HTTP the question goes the way of its answer
	req *sdk.CallToolRequest
	may bool
}

// clientOf is the client of a call, or nil.
func clientOf(ctx context.Context) *client {
	c, _ := ctx.Value(clientKey{}).(*client)
	return c
}

// The answers that a person can give, as the form has them.
const (
	answerOnce    = "once"
	answerSession = "session"
	answerNo      = "no"
)

var form = json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string","title":"Decision","description":"May it?",` +
	`"enum":["once","session","no"],"enumNames":["Allow this time","Allow this for the session","Deny"],"default":"no"}},"required":["decision"]}`)

// Ask implements approval.Asker.
func (c *client) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	if !c.may {
		return approval.Answer{}, unasked("clients may consent only where a token is set")
	}
	q.Rules = nil // the form has no such answer
	lead, body, err := q.Whole(approval.MaxShown)
	if err != nil {
		return approval.Answer{}, err
	}
	if !c.showsForms() {
		return approval.Answer{}, unasked("the client cannot ask for it")
	}
	// Clients may read the message as Markdown, in which parts could vanish.
	text := "Consent is needed.\n" + approval.Fenced(strings.TrimSuffix(lead+"\n"+body, "\n"))
	res, err := c.elicit(ctx, text, form)
	switch {
	case ctx.Err() != nil:
		return approval.Answer{}, ctx.Err()
	case err != nil:
		return approval.Answer{}, unasked("the client did not ask for it: " + err.Error())
	case res.Action != "accept":
		return said(approval.No), nil
	}
	switch res.Content["decision"] {
	case answerOnce:
		return said(approval.Once), nil
	case answerSession:
		return said(approval.Session), nil
	case answerNo:
	}
	return said(approval.No), nil
}

func said(c approval.Consent) approval.Answer { return approval.Answer{Consent: c, By: "MCP client"} }

// showsForms says whether the client can show forms. Those that name no kind of
// question show forms.
func (c *client) showsForms() bool {
	p := c.req.Session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	e := p.Capabilities.Elicitation
	return e.Form != nil || e.URL == nil
}

// elicit shows a form until ctx or the call ends.
func (c *client) elicit(ctx context.Context, text string, schema json.RawMessage) (*sdk.ElicitResult, error) {
	asked, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return c.req.Session.Elicit(asked, &sdk.ElicitParams{Message: text, RequestedSchema: schema})
}

// person is who answers Copilot's questions at the client, or nil.
func (c *client) person() bridge.Person {
	if !c.may || !c.showsForms() {
		return nil
	}
	return person{c}
}

type person struct{ *client }

// Ask implements bridge.Person.
func (p person) Ask(ctx context.Context, q bridge.Question) (bridge.Answer, error) {
	return approval.ByForm(ctx, q, p.Elicit)
}

// Elicit implements bridge.Person. What the client cannot show is declined.
func (p person) Elicit(ctx context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	if e.URL != "" {
		return bridge.ElicitationAnswer{Action: "decline"}, nil
	}
	if len(e.Schema) == 0 {
		e.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	text := e.Message
	if e.Source != "" {
		text = e.Source + " asks: " + text
	}
	res, err := p.elicit(ctx, approval.Lines(text), e.Schema)
	switch {
	case ctx.Err() != nil:
		return bridge.ElicitationAnswer{}, context.Cause(ctx)
	case err != nil:
		return bridge.ElicitationAnswer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "the client did not put the question", Cause: err}
	}
	return bridge.ElicitationAnswer{Action: res.Action, Content: res.Content}, nil
}
