// Package vscode reaches Copilot through a running VS Code: the extension that
// has started this program hands conversations to the editor's own language
// models. It is an engine.Agent for chats and the caller's tools.
//
// VS Code's models keep nothing between requests, so a session here is the
// list of messages, and every request carries all of it. A call of a tool ends
// a request; its result begins the next. There is no agent with tools of its
// own behind that API, hence no sessions of that profile. See docs/agents.md.
package vscode

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// maxTools is what VS Code takes.
const maxTools = 128

// toolName is what it takes for a tool's name.
var toolName = regexp.MustCompile(`^[\w-]+$`)

// Editor is what the agent needs of a running editor; *editor.Conn is one.
type Editor interface {
	Models(ctx context.Context) ([]editor.Model, error)
	Chat(ctx context.Context, r editor.ChatRequest, idle time.Duration) iter.Seq2[editor.Part, error]
	Done() <-chan struct{}
}

// Options make an Agent.
type Options struct {
	Editor Editor
	// Idle bounds how long a model may be silent; 5 minutes.
	Idle   time.Duration
	Logger *slog.Logger
	// Changed hears that Health may say something else now. It must not block.
	Changed func()
}

// Agent is the editor's models. Its methods may be called concurrently.
type Agent struct {
	opts   Options
	health *health

	mu     sync.Mutex
	closed bool
	open   map[*session]struct{}
	models map[string]bridge.Model // as listed last
	first  string                  // of them
}

// New returns an agent. The editor stays the caller's.
func New(opts Options) *Agent {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Idle <= 0 {
		opts.Idle = 5 * time.Minute
	}
	return &Agent{opts: opts, health: newHealth(opts.Changed), open: map[*session]struct{}{}, models: map[string]bridge.Model{}}
}

// Name is "vscode".
func (a *Agent) Name() string { return "vscode" }

// Open makes a new session, which is kept here alone.
func (a *Agent) Open(_ context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the agent is closed"}
	case spec.Profile == bridge.ProfileAgent:
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "VS Code offers models, not Copilot's agent with its tools", Remedy: NoAgent}
	case spec.Provider != nil || spec.MaxAICredits > 0 || len(spec.MCPServers) > 0:
		return nil, unsupported("be told of providers, credits or MCP servers")
	}
	if err := checkTools(spec.Tools); err != nil {
		return nil, err
	}
	id := spec.ID
	if id == "" {
		id = "vscode-" + rand.Text()
	}
	s := &session{agent: a, id: id, spec: spec, model: spec.Model, parked: map[string]chan bridge.ToolResult{}}
	a.open[s] = struct{}{}
	return s, nil
}

// NoAgent says what to do where an agent is wanted.
const NoAgent = "use the model without agent/ before it, or start `copilot-bridge serve` beside VS Code for agent/… models"

func checkTools(tools []bridge.ToolSpec) error {
	if len(tools) > maxTools {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there are %d tools, and VS Code's models take %d", len(tools), maxTools),
			Remedy: "offer fewer of them at a time"}
	}
	for _, t := range tools {
		if !toolName.MatchString(t.Name) {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q cannot be the name of a tool", t.Name),
				Remedy: "use letters, digits, underscores and hyphens"}
		}
	}
	return nil
}

// Resume is not possible: nothing is stored.
func (a *Agent) Resume(context.Context, string, bridge.SessionSpec) (bridge.Session, error) {
	return nil, unsupported("go on with stored sessions")
}

// Models lists Copilot's models as the editor has them.
func (a *Agent) Models(ctx context.Context) ([]bridge.Model, error) {
	listed, err := a.opts.Editor.Models(ctx)
	if err != nil {
		a.health.failed(err)
		return nil, err
	}
	a.health.listed(len(listed))
	known := map[string]bridge.Model{}
	var out []bridge.Model
	for _, m := range listed {
		if _, twice := known[m.ID]; twice || m.ID == "" {
			continue
		}
		known[m.ID] = bridge.Model{ID: m.ID, Name: m.Name, Vision: m.Vision, ContextTokens: m.MaxInputTokens, PromptTokens: m.MaxInputTokens}
		out = append(out, known[m.ID])
	}
	a.mu.Lock()
	a.models, a.first = known, ""
	if len(out) > 0 {
		a.first = out[0].ID
	}
	a.mu.Unlock()
	if len(out) == 0 {
		return nil, noModels()
	}
	return out, nil
}

func noModels() error {
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: whyNoModels, Remedy: "sign in to Copilot in VS Code, and see that its extension is enabled"}
}

const whyNoModels = "VS Code lists no models of Copilot"

// model is what is known of a model; "" means the first one.
func (a *Agent) model(ctx context.Context, id string) (string, bridge.Model, error) {
	look := func() (string, bridge.Model) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if id == "" {
			return a.first, a.models[a.first]
		}
		return id, a.models[id]
	}
	name, m := look()
	if m.ID != "" {
		return name, m, nil
	}
	if _, err := a.Models(ctx); err != nil {
		return "", m, err
	}
	name, m = look()
	return name, m, nil // the editor says whether there is one of another name
}

// Status says who answers, as far as is known.
func (a *Agent) Status(context.Context) (bridge.AgentStatus, error) {
	state, reason := a.health.get()
	return bridge.AgentStatus{Agent: a.Name(), AuthType: "editor", Message: reason,
		Authenticated: state == editor.CopilotOK || state == editor.CopilotUnknown}, nil
}

// Ping says whether the editor has models.
func (a *Agent) Ping(ctx context.Context) error {
	_, err := a.Models(ctx)
	return err
}

// Health is Copilot's availability by the outcome of what was last asked of
// it, and why if it is not well.
func (a *Agent) Health() (editor.Copilot, string) { return a.health.get() }

// Consented says that the user has just agreed to let the bridge use Copilot.
func (a *Agent) Consented() { a.health.answered() }

// Look finds out cheaply, by the list of models, whether what was said of
// Copilot's health still holds.
func (a *Agent) Look(ctx context.Context) error {
	a.health.doubt()
	return a.Ping(ctx)
}

// Capabilities are few: the words of a model.
func (a *Agent) Capabilities() map[bridge.Capability]bridge.Support {
	return map[bridge.Capability]bridge.Support{bridge.CapStreaming: {Level: bridge.SupportNative}}
}

// Close ends what runs.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	var open []*session
	for s := range a.open {
		open = append(open, s)
	}
	a.mu.Unlock()
	for _, s := range open {
		if err := s.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

func unsupported(what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "VS Code's models cannot " + what,
		Remedy: "use `copilot-bridge serve` beside VS Code for it"}
}
