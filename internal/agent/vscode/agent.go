// Package vscode reaches Copilot through a running VS Code: the extension that
// has started this program hands conversations to the editor's language models. It
// is an engine.Agent for chats and the caller's tools, without agent sessions.
// VS Code's models keep nothing between requests, so a session is a list of
// messages, and every request carries all of it. See docs/guides/agents.md.
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

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
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

	open session.Open

	mu     sync.Mutex
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
	return &Agent{opts: opts, health: newHealth(opts.Changed), models: map[string]bridge.Model{}}
}

// Name is "vscode".
func (a *Agent) Name() string { return "vscode" }

// Open makes a new session, which is kept here alone.
func (a *Agent) Open(_ context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	switch {
	case a.open.Closed():
		return nil, session.ErrClosed()
	case spec.Profile == bridge.ProfileAgent:
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "VS Code offers models, not Copilot's agent with its tools", Remedy: NoAgent}
	case spec.Provider != nil || len(spec.Headers) > 0 || spec.MaxAICredits > 0 || len(spec.MCPServers) > 0:
		return nil, unsupported("be told of providers, credits or MCP servers")
	}
	if err := checkTools(spec.Tools); err != nil {
		return nil, err
	}
	id := spec.ID
	if id == "" {
		id = "vscode-" + rand.Text()
	}
	s := &conversation{Base: session.New(id, spec), agent: a, model: spec.Model, parked: map[string]chan bridge.ToolResult{}}
	return s, a.open.Add(s.Base)
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

// model describes a model by its id; "" means the first one.
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

// Health is Copilot's availability, by the outcome of the last request, and the
// reason if it is not available.
func (a *Agent) Health() (editor.Copilot, string) { return a.health.get() }

// Consented says that the user has just agreed to let the bridge use Copilot.
func (a *Agent) Consented() { a.health.answered() }

// Doubt says that models or consent have changed: whether the state of Copilot's
// health still holds is found out with the next list of models.
func (a *Agent) Doubt() { a.health.doubt() }

// Capabilities are few: the words of a model.
func (a *Agent) Capabilities() map[bridge.Capability]bridge.Support {
	return map[bridge.Capability]bridge.Support{bridge.CapStreaming: {Level: bridge.SupportNative}}
}

// Close ends all turns.
func (a *Agent) Close(ctx context.Context) error { return a.open.Close(ctx) }

func unsupported(what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "VS Code's models cannot " + what,
		Remedy: "use `copilot-bridge serve` beside VS Code for it"}
}
