// Package agenttest is the contract of engine.Agent as a test suite. Every agent
// runs it against the real program that it drives; so does the Scripted agent in
// this package, which tests of the engine use. The "rehearsal:" directives of the
// demo model in the prompts say what the model answers.
package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// Harness says how to make the agent under test.
type Harness struct {
	// New returns a fresh agent; the suite closes it. One serves the whole
	// suite, as one serves all sessions of a program.
	New func(t *testing.T) engine.Agent
	// CreateTool is the tool that creates a file from path and file_text.
	CreateTool string
	// Lacks names what the agent's protocol has no means for, and why. In its
	// place the suite checks that the agent refuses it with CodeUnsupported.
	// docs/guides/agents.md lists the same; see Documented.
	Lacks map[Ability]string

	shared engine.Agent
}

// Ability is something that not every protocol can do.
type Ability string

// The abilities.
const (
	Chats       Ability = "chat without tools"     // sessions of ProfileChat
	Works       Ability = "Copilot's own tools"    // sessions of ProfileAgent
	ClientTools Ability = "the caller's tools"     // SessionSpec.Tools
	Resumes     Ability = "resuming sessions"      // Agent.Resume
	Lists       Ability = "listing sessions"       // engine.Lister
	Deletes     Ability = "deleting sessions"      // engine.Lister
	GatesTools  Ability = "stopping a tool call"   // Gate.Before and Gate.Permit
	HidesResult Ability = "rewriting tool results" // Gate.After, before the model sees them
)

func (h Harness) lacks(a Ability) bool { return h.Lacks[a] != "" }

// refused checks that a missing ability is refused with CodeUnsupported.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Errorf("%s is not refused as unsupported: %v", what, err)
	}
}

// Documented checks that a page names for an agent each ability that it
// lacks, in a table row "| ability | … |" below a heading with its name.
func Documented(t *testing.T, page, heading string, lacks map[Ability]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for a := range lacks {
		if !strings.Contains(section, "| "+string(a)+" |") {
			t.Errorf("%s does not say that %q is missing", heading, a)
		}
	}
}

// Patience bounds every wait of the suite. It is long because machines that
// run tests are busy; only what hangs waits for it.
const Patience = 2 * time.Minute

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	h.shared = h.start(t)
	t.Run("Turn", h.turn)
	t.Run("Cancel", h.cancel)
	t.Run("Resume", h.resume)
	t.Run("Close", h.closing)
	t.Run("Reuse", h.reuse)
	t.Run("Gate", h.gate)
	t.Run("ClientTools", h.clientTools)
}

// Say is a prompt that makes the model answer with this text.
func Say(text string) bridge.Prompt { return Script("text " + text) }

// Script is a prompt of directives, one a line.
func Script(directives ...string) bridge.Prompt {
	return bridge.Prompt{Text: "rehearsal: " + strings.Join(directives, "\nrehearsal: ")}
}

// Tool is the directive for a tool call.
func Tool(name string, args map[string]any) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // a test's own literal
	}
	return fmt.Sprintf("tool %s %s", name, b)
}

// start makes an agent that is closed when the test ends.
func (h Harness) start(t *testing.T) engine.Agent {
	t.Helper()
	a := h.New(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Errorf("closing the agent: %v", err)
		}
	})
	return a
}

// agent is the suite's agent, with a context that bounds the test.
func (h Harness) agent(t *testing.T) (context.Context, engine.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx, h.shared
}

func (h Harness) open(t *testing.T, spec bridge.SessionSpec) (context.Context, engine.Agent, bridge.Session) {
	t.Helper()
	ctx, a := h.agent(t)
	if spec.Profile == "" {
		spec.Profile = bridge.ProfileAgent
		if h.lacks(Works) {
			spec.Profile = bridge.ProfileChat // what holds for one holds for the other
		}
	}
	if spec.WorkingDir == "" {
		spec.WorkingDir = t.TempDir()
	}
	s, err := a.Open(ctx, spec)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		_ = s.Close(ctx) // tests close or remove some themselves
	})
	return ctx, a, s
}

// Outcome is a turn that has been read to its end.
type Outcome struct {
	Events []bridge.Event
	Err    error
}

// Collect reads a whole turn.
func Collect(ctx context.Context, s bridge.Session, p bridge.Prompt) Outcome {
	var o Outcome
	for ev, err := range s.Send(ctx, p) {
		if err != nil {
			o.Err = err
			continue
		}
		o.Events = append(o.Events, ev)
	}
	return o
}

// Find returns the events of one type.
func Find[T bridge.Event](o Outcome) []T {
	var out []T
	for _, ev := range o.Events {
		if e, ok := ev.(T); ok {
			out = append(out, e)
		}
	}
	return out
}

// Text is the last whole message.
func (o Outcome) Text() string {
	m := Find[bridge.MessageDone](o)
	if len(m) == 0 {
		return ""
	}
	return m[len(m)-1].Text
}

// Deltas are the pieces of text, joined.
func (o Outcome) Deltas() string {
	var b strings.Builder
	for _, d := range Find[bridge.TextDelta](o) {
		b.WriteString(d.Text)
	}
	return b.String()
}

func (o Outcome) reason() bridge.EndReason {
	if len(o.Events) == 0 {
		return ""
	}
	end, ok := o.Events[len(o.Events)-1].(bridge.TurnEnded)
	if !ok {
		return ""
	}
	return end.Reason
}

// Gate records what it is asked and answers with fixed decisions.
type Gate struct {
	BeforeFunc func(bridge.ToolCall) bridge.Decision
	PermitFunc func(bridge.PermissionRequest) bridge.Decision
	AfterFunc  func(bridge.ToolCall, any) (any, error)
	PromptFunc func(string) (string, error)

	mu       sync.Mutex
	befores  []bridge.ToolCall
	requests []bridge.PermissionRequest
	afters   []bridge.ToolCall
}

// AllowAll is a gate that allows everything.
func AllowAll() *Gate { return &Gate{} }

// Befores, Requests and Afters are the questions to the gate so far.
func (g *Gate) Befores() []bridge.ToolCall           { return locked(&g.mu, &g.befores) }
func (g *Gate) Requests() []bridge.PermissionRequest { return locked(&g.mu, &g.requests) }
func (g *Gate) Afters() []bridge.ToolCall            { return locked(&g.mu, &g.afters) }
func locked[T any](mu *sync.Mutex, s *[]T) (copied []T) {
	mu.Lock()
	defer mu.Unlock()
	return append(copied, *s...)
}

func note[T any](mu *sync.Mutex, s *[]T, v T) {
	mu.Lock()
	defer mu.Unlock()
	*s = append(*s, v)
}

// Prompt implements bridge.Gate, as do the methods below.
func (g *Gate) Prompt(_ context.Context, text string) (string, error) {
	if g.PromptFunc != nil {
		return g.PromptFunc(text)
	}
	return text, nil
}

func (g *Gate) Before(_ context.Context, c bridge.ToolCall) bridge.Decision {
	note(&g.mu, &g.befores, c)
	if g.BeforeFunc != nil {
		return g.BeforeFunc(c)
	}
	return bridge.Decision{Verdict: bridge.Allow}
}

func (g *Gate) Permit(_ context.Context, r bridge.PermissionRequest) bridge.Decision {
	note(&g.mu, &g.requests, r)
	if g.PermitFunc != nil {
		return g.PermitFunc(r)
	}
	return bridge.Decision{Verdict: bridge.Allow}
}

func (g *Gate) After(_ context.Context, c bridge.ToolCall, result any) (any, error) {
	note(&g.mu, &g.afters, c)
	if g.AfterFunc != nil {
		return g.AfterFunc(c, result)
	}
	return result, nil
}

func (g *Gate) Failed(context.Context, bridge.ToolCall, string) {}

func (g *Gate) Recover(context.Context, string, bool) bridge.Recovery { return bridge.RecoverDefault }

func join(dir, name string) string { return filepath.Join(dir, name) }
