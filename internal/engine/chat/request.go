package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// answer is one request and its answer. The reader takes items; the goroutine
// of the turn writes them, and closes the channel when the answer is over. The
// turn may end later.
type answer struct {
	chat    *bridge.Chat
	caller  string // see From
	shape   *shape
	format  digest
	history []bridge.Message // the whole conversation
	known   []bridge.Message // up to the last message of the assistant
	fresh   []bridge.Message // after that
	before  *remembered      // the answer named by Chat.Previous
	chain   *chain           // of known, then of all
	began   time.Time

	answers *answers

	items  chan bridge.Piece
	first  chan struct{}   // closed with the first item
	begun  func()          // closes first, once
	reader context.Context // ends when the reader has left
	left   context.CancelFunc
	over   atomic.Bool             // the answer has ended; its turn need not be aborted
	cancel context.CancelCauseFunc // ends the turn

	stream *streamDeduper // of the turn's goroutine
}

type callerKey struct{}

// From names the caller of the requests under a context. Callers share places
// fairly where some have to wait.
func From(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// accept checks a request and makes an answer of it.
func (s *Service) accept(ctx context.Context, c *bridge.Chat) (*answer, error) {
	caller, _ := ctx.Value(callerKey{}).(string)
	a := &answer{chat: c, caller: caller, began: time.Now(), history: c.Messages, format: formatKey(c),
		answers: &s.answers, items: make(chan bridge.Piece, 64), first: make(chan struct{})}
	a.begun = sync.OnceFunc(func() { close(a.first) })
	a.reader, a.left = context.WithCancel(context.Background())
	if c.Previous != "" {
		var err error
		if a.before, err = s.answers.find(c.Previous); err != nil {
			return nil, err
		}
		a.history = append(a.before.messages(), c.Messages...)
	}
	if n := len(c.Messages); n == 0 {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "there are no messages"}
	} else if last := c.Messages[n-1].Role; last != bridge.RoleUser && last != bridge.RoleTool {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the last message is the " + string(last) + "'s: there is nothing to answer",
			Remedy: "end with a message of the user or the result of a tool"}
	}
	if err := checkResults(a.history); err != nil {
		return nil, err
	}
	if c.Profile == bridge.ProfileAgent && s.opts.AgentSpec == nil {
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "agents are not served here"}
	}
	var err error
	if a.shape, err = shapeOf(c); err != nil {
		return nil, err
	}
	a.known, a.fresh = split(a.history)
	a.chain = newChain(a.shape.key)
	a.chain.add(a.known...)
	a.stream = newStreamDeduper(c, a.shape, func(ev bridge.Event) { a.put(ev, nil) })
	return a, nil
}

// checkResults makes sure that every result has a call before it.
func checkResults(history []bridge.Message) error {
	called := map[string]bool{}
	for i := range history {
		m := &history[i]
		for _, c := range m.Calls {
			called[c.ID] = true
		}
		if m.Role == bridge.RoleTool && !called[m.CallID] {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there is a tool's result for the call %q, but no such call before it", m.CallID),
				Remedy: "send the assistant's message that made the call, too"}
		}
	}
	return nil
}

// shape is what a session is made for. Sessions of one shape can stand in for
// each other; conversations of different shapes have nothing in common. The
// working directory of agents is one for the whole service.
type shape struct {
	key    digest
	agent  bool // Copilot's own tools in a working directory: never used again
	model  string
	worker string // who does the work, if not this machine
	effort string
	system string
	tools  *tools // those that are offered
}

// shapeOf derives the shape of a request. The choice of tools is part of it: with
// "none" no tool is offered, with a name only that one.
func shapeOf(c *bridge.Chat) (*shape, error) {
	s := &shape{agent: c.Profile == bridge.ProfileAgent, model: c.Model, worker: c.Worker, effort: c.Effort, system: c.System}
	offered := c.Tools
	switch c.Choice.Mode {
	case bridge.ToolNone:
		offered = nil
	case bridge.ToolNamed:
		i := slices.IndexFunc(c.Tools, func(t bridge.ToolSpec) bool { return t.Name == c.Choice.Name })
		if i < 0 {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the tool %q is to be called but is not among the tools", c.Choice.Name)}
		}
		offered = c.Tools[i : i+1]
	case bridge.ToolRequired:
		if len(c.Tools) == 0 {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "a tool is to be called but there are no tools"}
		}
	case bridge.ToolAuto:
	default:
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("unknown choice of tools %q", c.Choice.Mode)}
	}
	if s.worker != "" && len(offered) > 0 {
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "a worker on another machine cannot call your tools",
			Remedy: "leave them out, or use the model without " + workerSign + s.worker}
	}
	var err error
	if s.tools, err = newTools(offered, s.agent); err != nil {
		return nil, err
	}
	parts := []string{string(c.Profile), s.model, s.worker, s.effort, s.system}
	for _, t := range s.tools.specs {
		parts = append(parts, t.Name, s.tools.client[t.Name], t.Description, jsonText(t.Schema))
	}
	s.key = digestOf(parts...)
	return s, nil
}

// The runtime has no parameters for these options, so the model is told in
// words, at the end of the prompt.
const (
	sayCallTool = "Answer by calling at least one of the tools that you have."
	sayCallThis = "Answer by calling the tool %s."
	sayOneCall  = "Call at most one tool at a time."
	sayJSON     = "Answer with one JSON object and nothing else: no code fence, no text around it."
)

// anyObject is the schema of json_object.
var anyObject = json.RawMessage(`{"type":"object"}`)

// direct adds the options of the request to its prompt.
func (a *answer) direct(p *bridge.Prompt, providerKind string) {
	c, sh := a.chat, a.shape
	say := func(format string, args ...any) {
		if p.Text != "" {
			p.Text += "\n\n"
		}
		p.Text += fmt.Sprintf(format, args...)
	}
	switch c.Choice.Mode {
	case bridge.ToolRequired:
		p.MustCall = true
		say(sayCallTool)
	case bridge.ToolNamed:
		p.MustCall = true
		say(sayCallThis, sh.tools.seen(c.Choice.Name))
	case bridge.ToolAuto, bridge.ToolNone:
	}
	if c.OneCall && len(sh.tools.specs) > 1 {
		say(sayOneCall)
	}
	p.ResponseFormat = c.ResponseFormat
	if c.JSON && c.ResponseFormat == nil {
		say(sayJSON)
		if looseSchemas(providerKind) {
			p.ResponseFormat = &bridge.ResponseFormat{Name: "object", Schema: anyObject}
		}
	}
	if p.Text == "" && len(p.Attachments) > 0 {
		p.Text = "See what is attached."
	}
}

// looseSchemas says whether a provider takes a schema that allows any object,
// which is how its JSON mode is reached: the runtime passes on schemas only.
// Anthropic and some of GitHub's models take none but closed schemas.
func looseSchemas(providerKind string) bool {
	switch providerKind {
	case "openai", "azure", "ollama":
		return true
	}
	return false
}

// formatKey names the format that a turn's answer is bound to. It holds for the
// whole turn, so a parked one can only be continued under the same.
func formatKey(c *bridge.Chat) digest {
	if f := c.ResponseFormat; f != nil {
		return digestOf(fmt.Sprint(c.JSON), f.Name, string(f.Schema), fmt.Sprint(f.Strict))
	}
	return digestOf(fmt.Sprint(c.JSON))
}

// checkPrompt has a text checked on its way to the model. Agents have a gate.
func (s *Service) checkPrompt(ctx context.Context, a *answer, text string) (string, error) {
	if s.opts.Prompt == nil || a.shape.agent || text == "" {
		return text, nil
	}
	return s.opts.Prompt(ctx, a.chat.Door, text)
}

// remember keeps an answer that a later request may name.
func (a *answer) remember(reply bridge.Message) {
	if id := a.chat.Answer; id != "" {
		a.answers.put(id, newRemembered(a.before, slices.Concat(a.chat.Messages, []bridge.Message{reply})))
	}
}

// put gives an event or an error to the reader, unless it has left.
func (a *answer) put(ev bridge.Event, err error) {
	a.begun()
	select {
	case a.items <- bridge.Piece{Event: ev, Err: err}:
	case <-a.reader.Done():
	}
}

// leave is called when the reader goes away; it aborts a turn whose answer is
// not over.
func (a *answer) leave() {
	a.left()
	if !a.over.Load() {
		a.cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "the client has left"})
	}
}

func (a *answer) end(r bridge.EndReason, u bridge.Usage) bridge.TurnEnded {
	return bridge.TurnEnded{Reason: r, Usage: u, Duration: time.Since(a.began)}
}

// finish ends an answer that succeeded.
func (a *answer) finish(r bridge.EndReason) {
	a.over.Store(true)
	a.put(a.end(r, a.stream.usage), nil)
	close(a.items)
}

// fail ends it with an error.
func (a *answer) fail(err error) {
	a.over.Store(true)
	e := bridge.AsError(err)
	if a.stream.begun {
		reason := bridge.EndFailed
		if e.Code == bridge.CodeCanceled {
			reason = bridge.EndAborted
		}
		a.put(bridge.Failed{Error: e}, nil)
		a.put(a.end(reason, a.stream.usage), nil)
	}
	a.put(nil, e)
	close(a.items)
}

// reply is the answer as the client will send it back.
func (a *answer) reply(calls []bridge.ToolCall) bridge.Message {
	return bridge.Message{Role: bridge.RoleAssistant, Text: a.stream.text.String(), Calls: calls}
}
