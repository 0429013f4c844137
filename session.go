package copilotbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// SessionOptions describe a session. The zero value is Copilot's agent with its
// own tools in the client's workspace.
type SessionOptions struct {
	// Chat gives the model only the caller's messages and Tools: none of
	// Copilot's tools, and no access to the machine.
	Chat bool
	// Model and ReasoningEffort override the client's.
	Model, ReasoningEffort string
	// System is added to the agent's system text, and is all of a chat's.
	System string
	// Tools run in this program.
	Tools []Tool
	// MCPServers are further tools, by the server's name.
	MCPServers map[string]bridge.MCPServer
	// Person answers questions of the agent; without one it asks none.
	Person bridge.Person
	// Provider answers instead of the configured one; it needs Model.
	Provider *bridge.Provider
	// Headers go with every request to the model's provider.
	Headers map[string]string
	// Title is shown by `copilot-bridge sessions`; the first prompt if empty.
	Title string
}

// Tool is a function of this program that the model may call.
type Tool struct {
	Name        string
	Description string
	// Schema is the JSON schema of the arguments, an object.
	Schema map[string]any
	// Run is called with the arguments as decoded by encoding/json. An error is
	// told to the model. Several calls may run at a time; ctx ends with the turn.
	Run func(ctx context.Context, args map[string]any) (string, error)
}

// Session is a conversation. One turn runs at a time; the other methods may be
// called meanwhile.
type Session struct {
	inner *engine.Session
	tools map[string]Tool
	// prompt hides secrets in a chat's prompts and records them; nil for an
	// agent, whose gate does it.
	prompt func(ctx context.Context, text string) (string, error)
}

// NewSession opens a session. It ends with Close, and can be resumed later.
func (c *Client) NewSession(ctx context.Context, o SessionOptions) (*Session, error) {
	return c.open(o, func(r engine.Request) (*engine.Session, error) { return c.bridge.Engine.Open(ctx, r) })
}

// ResumeSession continues a session of this or another program, such as
// `copilot-bridge run`. The id may be shortened. Chats cannot be resumed.
func (c *Client) ResumeSession(ctx context.Context, id string, o SessionOptions) (*Session, error) {
	if o.Chat {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "chats are not kept, so they cannot be resumed", Remedy: "resume a session of an agent, or open a new chat"}
	}
	return c.open(o, func(r engine.Request) (*engine.Session, error) { return c.bridge.Engine.Resume(ctx, id, r) })
}

func (c *Client) open(o SessionOptions, open func(engine.Request) (*engine.Session, error)) (*Session, error) {
	s := &Session{tools: map[string]Tool{}}
	if o.Chat {
		guard, err := c.bridge.PromptGuard(door)
		if err != nil {
			return nil, err
		}
		s.prompt = guard.Prompt
	}
	var specs []bridge.ToolSpec
	for _, t := range o.Tools {
		if _, twice := s.tools[t.Name]; twice || t.Name == "" || t.Run == nil {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the tool %q cannot be offered", t.Name), Remedy: "give every tool a name that no other has, and a Run function"}
		}
		s.tools[t.Name] = t
		specs = append(specs, bridge.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	spec, err := c.spec(o, specs)
	if err != nil {
		return nil, err
	}
	if s.inner, err = open(engine.Request{Spec: spec, Door: door, Keep: !o.Chat, Title: o.Title}); err != nil {
		return nil, err
	}
	return s, nil
}

// door names this package in usage figures and the audit log.
const door = "go"

func (c *Client) spec(o SessionOptions, tools []bridge.ToolSpec) (spec bridge.SessionSpec, err error) {
	if o.Chat {
		spec = c.bridge.Spec(bridge.ProfileChat, "")
		spec.Person = o.Person
		spec.System = bridge.SystemText{Text: o.System, Replace: true}
	} else {
		spec = c.bridge.Spec(bridge.ProfileAgent, c.opts.Dir)
		spec.System.Text = o.System
		defaults := policy.DefaultsRun()
		if c.opts.ReadOnly {
			defaults = policy.DefaultsServe()
		}
		g := app.Guarding{Workspace: c.opts.Dir, Door: door, Asker: c.asker(), Defaults: defaults, Tools: tools}
		gate, err := c.bridge.Gate(g)
		if err != nil {
			return spec, err
		}
		spec.Gate, spec.Person = gate, c.bridge.Person(g, gate, o.Person)
	}
	spec.Tools, spec.MCPServers, spec.Provider = tools, o.MCPServers, o.Provider
	if !o.Chat {
		spec.MCPServers = c.bridge.WithServers(c.opts.Dir, o.MCPServers)
	}
	if o.Headers != nil {
		spec.Headers = o.Headers
	}
	if o.Model != "" {
		spec.Model = o.Model
	}
	if o.ReasoningEffort != "" {
		spec.ReasoningEffort = o.ReasoningEffort
	}
	return spec, err
}

// ID names the session, also for `copilot-bridge run --resume`.
func (s *Session) ID() string { return s.inner.ID() }

// Send starts a turn when the sequence is ranged over, and streams it. A turn
// that succeeds ends with bridge.TurnEnded; one that fails, with an error.
// Calls of the session's tools are run meanwhile. Leaving the loop, or ending
// ctx, aborts the turn; when the loop is left, all of its tools have returned.
func (s *Session) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		var running sync.WaitGroup
		defer running.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		p, err := s.guarded(ctx, p)
		if err != nil {
			yield(nil, err)
			return
		}
		for event, err := range s.inner.Send(ctx, p) {
			if r, ok := event.(bridge.ToolRequested); ok {
				running.Go(func() { s.run(ctx, r) })
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// run calls a tool and hands its result to the session. If that fails, the
// turn has ended, and says why.
func (s *Session) run(ctx context.Context, r bridge.ToolRequested) {
	result := bridge.ToolResult{Failed: true, Text: "there is no tool named " + r.Call.Name}
	if t, ok := s.tools[r.Call.Name]; ok {
		args, _ := r.Call.Args.(map[string]any) // nil for a call without arguments
		text, err := t.Run(ctx, args)
		result = bridge.ToolResult{Text: text}
		if err != nil {
			result = bridge.ToolResult{Failed: true, Text: err.Error()}
		}
	}
	_ = s.inner.Resolve(ctx, r.RequestID, result)
}

// Ask sends a prompt and returns the agent's last message.
func (s *Session) Ask(ctx context.Context, text string) (string, error) {
	var last string
	for event, err := range s.Send(ctx, bridge.Prompt{Text: text}) {
		if err != nil {
			return last, err
		}
		if m, ok := event.(bridge.MessageDone); ok && m.AgentID == "" && strings.TrimSpace(m.Text) != "" {
			last = m.Text
		}
	}
	return last, nil
}

// Steer adds a message to the running turn: the model hears it with its next
// request. Without a running turn it fails with bridge.CodeConflict.
func (s *Session) Steer(ctx context.Context, p bridge.Prompt) error {
	p, err := s.guarded(ctx, p)
	if err != nil {
		return err
	}
	return s.inner.Steer(ctx, p)
}

// Enqueue adds a message for which the running turn goes on when it would end.
// Whoever ranges over Send gets its answer, too. Without a running turn it fails
// with bridge.CodeConflict.
func (s *Session) Enqueue(ctx context.Context, p bridge.Prompt) error {
	p, err := s.guarded(ctx, p)
	if err != nil {
		return err
	}
	return s.inner.Enqueue(p)
}

// guarded hides secrets in a chat's prompt and records it.
func (s *Session) guarded(ctx context.Context, p bridge.Prompt) (_ bridge.Prompt, err error) {
	if s.prompt != nil {
		p.Text, err = s.prompt(ctx, p.Text)
	}
	return p, err
}

// Abort ends the running turn; without one it does nothing.
func (s *Session) Abort(ctx context.Context) error { return s.inner.Abort(ctx) }

// SetModel switches the model from the next turn on; effort may be empty.
func (s *Session) SetModel(ctx context.Context, model, effort string) error {
	return s.inner.SetModel(ctx, model, effort)
}

// History returns the conversation so far, oldest first.
func (s *Session) History(ctx context.Context) ([]bridge.Event, error) { return s.inner.History(ctx) }

// Call calls a method of Copilot's runtime by its name, such as
// "session.name.set", in this session: for what this package has no function
// for. The policy judges it, a person is asked where it acts beyond the session,
// and methods that would bypass the guard are refused (bridge.CodeDenied). params
// is marshalled to a JSON object and may be nil. `copilot-bridge capabilities`
// lists the methods, which may change with the runtime's version.
func (s *Session) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if params == nil {
		return s.inner.Call(ctx, method, nil)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the parameters of " + method + " cannot be marshalled", Cause: err}
	}
	return s.inner.Call(ctx, method, raw)
}

// Close releases the session. Its stored state stays, and can be resumed.
func (s *Session) Close(ctx context.Context) error { return s.inner.Close(ctx) }
