// Package guard decides what a session may do, hides secrets, and keeps the
// record. Agents ask it through bridge.Gate: before every tool call, for
// every permission request of the runtime, and with every prompt and result.
//
// The decision itself is policy's; this package makes of a tool call what a
// policy can judge (paths resolved, commands taken apart, hosts read), puts to
// a person what needs consent, and writes each decision down before it takes
// effect. It fails closed: an error, a panic, a record that cannot be written,
// or something it does not understand is a denial.
package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/repo"
)

// Recorder takes down what happened. *audit.Log is one.
type Recorder interface {
	Append(ctx context.Context, e audit.Entry) error
}

// Options make a Guard. Workspace and Policy are required.
type Options struct {
	Workspace *paths.Workspace
	// Dir is where the session works, if not at the root of the workspace:
	// relative paths of its tool calls start there. It moves no border.
	Dir      string
	Policy   *policy.Policy
	Redactor *redact.Redactor
	Audit    Recorder // nil keeps no record
	Asker    approval.Asker
	// AskTimeout bounds how long a person may take; no answer is a denial.
	AskTimeout time.Duration
	// AllowTools need no consent, by name, the runtime's or the one that the
	// Agent Backplane's back ends share; what is denied stays denied.
	AllowTools []string
	// Caller is who wants to do something, in questions; "" for Copilot.
	Caller string
	// Door names the caller in the record, and Sources the policy in force.
	Door    string
	Sources []string
	// Servers are the names of the session's MCP servers, and ClientTools
	// those of the caller's own tools.
	Servers     []string
	ClientTools []string
	// OwnTools are tools of MCP servers that the bridge itself has given the
	// session, by their whole names. They only read, and are not asked about.
	OwnTools []string
	// MaxRetries caps what Recover allows.
	MaxRetries int
	// Personal is the directory of the user's own instructions for Copilot.
	Personal string
	// Whole, if set, sees what a tool returned without secrets but before it
	// is shortened for the model.
	Whole func(call bridge.ToolCall, result any)
	// Reason, if set, words the denial of a tool; "" leaves it as it is.
	Reason func(tool string, o policy.Outcome) string
	// Wall is the sandbox that calls are in which say that they are confined;
	// nil where there is none.
	Wall *Wall
	// Home is the bridge's own directory, with the user's policy file. Without
	// it no rule is written, and nobody is offered to.
	Home string
}

// maxResult is how much of one string of a tool's result the model gets.
const maxResult = 10 << 10

// Guard is the gate of one session. Its methods may be called concurrently.
type Guard struct {
	opts    Options
	here    *paths.Workspace // as seen from where the session works
	results *redact.Redactor // for what tools return
	repos   repo.Finder
	// inForce is the policy, with what was granted for the session.
	inForce atomic.Pointer[policy.Policy]

	mu       sync.Mutex
	plan     *plan           // of the sandbox, once it is made
	own      map[string]bool // files that the session has made
	session  string
	agreed   map[string]bool // what a person has allowed for the session, by its hash
	calls    []*openCall     // allowed and not ended, the oldest first
	attempts int
	asked    int // questions put to a person, to number them
	// instructions are the files that Instructions read or withheld.
	instructions []map[string]any
}

// New returns the guard of a session.
func New(opts Options) *Guard {
	if opts.Asker == nil {
		opts.Asker = approval.Nobody{}
	}
	if opts.AskTimeout <= 0 {
		opts.AskTimeout = 5 * time.Minute
	}
	if opts.Redactor == nil {
		opts.Redactor = redact.New(redact.Options{})
	}
	opts.AllowTools = policy.RuntimeTools(opts.AllowTools)
	here := opts.Workspace
	if opts.Dir != "" {
		here = here.At(opts.Dir)
	}
	g := &Guard{opts: opts, here: here, results: opts.Redactor.Results(), agreed: map[string]bool{}, own: map[string]bool{}}
	g.inForce.Store(opts.Policy)
	return g
}

func (g *Guard) policy() *policy.Policy { return g.inForce.Load() }

// Begin puts the beginning of a session on record, with the policy that it is
// under; the session's name is part of every entry from then on.
func (g *Guard) Begin(ctx context.Context, session string) error {
	g.mu.Lock()
	g.session = session
	input := map[string]any{"workspace": g.opts.Workspace.Root(), "policy": g.opts.Sources}
	if g.instructions != nil {
		input["instructions"] = g.instructions
	}
	g.mu.Unlock()
	return g.record(ctx, audit.Entry{Hook: audit.HookStart, Input: input}, time.Now())
}

// End puts the end of the session on record.
func (g *Guard) End(ctx context.Context) error {
	return g.record(ctx, audit.Entry{Hook: audit.HookStop}, time.Now())
}

// Prompt hides secrets in what the user says.
func (g *Guard) Prompt(ctx context.Context, text string) (string, error) {
	clean, hits, err := g.opts.Redactor.StringContext(ctx, text)
	if err != nil {
		return "", err
	}
	e := audit.Entry{Hook: audit.HookPrompt, Input: clean, Decision: "allow"}
	if hits > 0 {
		e.Reason = fmt.Sprintf("%d secrets hidden", hits)
	}
	if err := g.record(ctx, e, time.Now()); err != nil {
		return "", err
	}
	return clean, nil
}

// Before judges a tool call before anything happens.
func (g *Guard) Before(ctx context.Context, call bridge.ToolCall) bridge.Decision {
	began := time.Now()
	action := g.action(call)
	var d bridge.Decision
	asked := false
	if err := CheckDepth(DepthOfArgs(call.Args)); err != nil {
		d = deny(err.Error())
	} else {
		d, asked = g.decide(ctx, action, requestOf(call, action))
	}
	if d.Verdict == bridge.Allow {
		d.Args, d.Consented = g.settled(call), asked
		g.makes(action)
		g.begin(call, d, action, asked)
	}
	return g.written(ctx, audit.Entry{Hook: audit.HookPreTool, Tool: call.Name, Call: call.ID, Input: call.Args, Sandbox: confined(action, d)}, d, began)
}

// Permit answers a permission request of the runtime. A command that was judged
// when it was called is not judged again.
func (g *Guard) Permit(ctx context.Context, r bridge.PermissionRequest) bridge.Decision {
	began := time.Now()
	call, d := g.judged(r)
	var action policy.Action
	if call != nil {
		action = call.action
	} else {
		var agreed bool
		action = g.requested(r)
		call, agreed = g.callOf(action, r)
		if call != nil && action.Tool == "" {
			action.Tool = call.call.Name
		}
		if out := g.policy().Evaluate(action); out.Verdict == policy.Ask && agreed {
			d = allow("allowed when it was called")
		} else {
			d, _ = g.decide(ctx, action, r)
		}
	}
	if d.Verdict != bridge.Allow {
		g.forget(call)
	}
	e := audit.Entry{Hook: audit.HookPermission, Tool: action.Tool, Call: r.CallID, Input: r, Sandbox: confined(action, d)}
	d.Grant = nil // it was given when the call was judged
	return g.written(ctx, e, d, began)
}

// decide evaluates the policy and asks a person where it says so.
func (g *Guard) decide(ctx context.Context, a policy.Action, r bridge.PermissionRequest) (d bridge.Decision, asked bool) {
	out := g.policy().Evaluate(a)
	defer func() {
		if d.Verdict == bridge.Allow {
			d.Grant = g.granted(a, out.Grant)
		}
	}()
	switch out.Verdict {
	case policy.Allow:
		return allow(out.Reason), false
	case policy.Ask:
		for _, name := range g.opts.AllowTools {
			if strings.EqualFold(name, a.Tool) && !out.Firm {
				return allow("always allowed by configuration"), false
			}
		}
		return g.ask(ctx, r, out, a.Wall), true
	case policy.Deny:
	}
	if g.opts.Reason != nil {
		if words := g.opts.Reason(a.Tool, out); words != "" {
			return deny(words), false
		}
	}
	return deny(out.Reason), false
}

// After hides secrets in every string of a result and shortens what is long,
// before the model or anybody else sees it.
func (g *Guard) After(ctx context.Context, call bridge.ToolCall, result any) (any, error) {
	began := time.Now()
	notice := g.ended(call)
	if reason := g.strayed(call); reason != "" {
		err := errors.New(reason)
		return nil, errors.Join(err, g.record(ctx, audit.Entry{Hook: audit.HookPostTool, Tool: call.Name, Call: call.ID, Decision: "deny", Reason: reason}, began))
	}
	clean, hits, err := g.redactorFor(ctx, call, result).ValueContext(ctx, result)
	if err != nil {
		return nil, errors.Join(err, g.record(ctx, audit.Entry{Hook: audit.HookPostTool, Tool: call.Name, Call: call.ID, Decision: "deny", Reason: withheld}, began))
	}
	if g.opts.Whole != nil {
		g.opts.Whole(call, clean)
	}
	clean = shorten(clean)
	if m, ok := clean.(map[string]any); ok && notice != "" {
		text, _ := m["textResultForLlm"].(string)
		m["textResultForLlm"] = text + "\n" + notice
	}
	e := audit.Entry{Hook: audit.HookPostTool, Tool: call.Name, Call: call.ID, Output: clean, Decision: "allow"}
	if hits > 0 {
		e.Reason = fmt.Sprintf("%d secrets hidden", hits)
	}
	if err := g.record(ctx, e, began); err != nil {
		return nil, err
	}
	return clean, nil
}

// shorten cuts long strings of a tool's result, at any depth.
func shorten(v any) any {
	switch v := v.(type) {
	case string:
		s, _ := redact.Truncate(v, maxResult)
		return s
	case map[string]any:
		for k := range v {
			v[k] = shorten(v[k])
		}
	case []any:
		for i := range v {
			v[i] = shorten(v[i])
		}
	}
	return v
}

// Failed takes down a tool call that ended in an error.
func (g *Guard) Failed(ctx context.Context, call bridge.ToolCall, message string) {
	g.ended(call)
	clean, _ := g.results.String(message)
	// There is no decision left to take; the next one fails if the record does.
	_ = g.record(ctx, audit.Entry{Hook: audit.HookToolFailure, Tool: call.Name, Call: call.ID, Output: clean}, time.Now())
}

// Recover sorts an error by its text.
func (g *Guard) Recover(ctx context.Context, message string, _ bool) bridge.Recovery {
	g.mu.Lock()
	g.attempts++
	r := bridge.ClassifyText(message).Recovery(g.attempts, g.opts.MaxRetries)
	g.mu.Unlock()
	clean, _ := g.opts.Redactor.String(message)
	if err := g.record(ctx, audit.Entry{Hook: audit.HookError, Output: clean, Decision: string(r)}, time.Now()); err != nil {
		return bridge.RecoverAbort
	}
	return r
}

// written puts a decision on record; without one nothing is allowed.
func (g *Guard) written(ctx context.Context, e audit.Entry, d bridge.Decision, began time.Time) bridge.Decision {
	e.Decision, e.Reason = d.Verdict.String(), d.Reason
	if err := g.record(ctx, e, began); err != nil {
		return deny(err.Error())
	}
	return d
}

// record completes an entry and appends it. Inputs are redacted here, so that
// no caller can forget to.
func (g *Guard) record(ctx context.Context, e audit.Entry, began time.Time) error {
	if g.opts.Audit == nil {
		return nil
	}
	g.mu.Lock()
	e.Session = g.session
	g.mu.Unlock()
	e.Door, e.Duration = g.opts.Door, float64(time.Since(began).Microseconds())/1000
	if err := g.opts.Audit.Append(context.WithoutCancel(ctx), e); err != nil {
		return fmt.Errorf("the audit log cannot be written, so nothing is allowed: %w", err)
	}
	return nil
}

func allow(reason string) bridge.Decision {
	return bridge.Decision{Verdict: bridge.Allow, Reason: reason}
}

func deny(reason string) bridge.Decision {
	return bridge.Decision{Verdict: bridge.Deny, Reason: reason}
}
