// Package guard decides what a session may do, hides secrets, and keeps the
// record. It resolves paths, parses commands and reads hosts; package policy
// judges the result. It runs nothing itself. Agents ask it through bridge.Gate,
// package workspace through Judge; package app makes one Guard per session. It
// fails closed: an error, a panic, a record that cannot be written, or
// something that it does not understand is a denial.
package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/repo"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/shell"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
)

// Recorder takes down what happened. *audit.Log is one.
type Recorder interface {
	Append(ctx context.Context, e audit.Entry) error
}

// Options make a Guard. Workspace is required, and Policy or Live.
type Options struct {
	Workspace *paths.Workspace
	// Dir is where the session works, if not at the root of the workspace:
	// relative paths of its tool calls start there. It moves no border.
	Dir    string
	Policy *policy.Policy
	// Live is a policy that follows its files. It counts instead of Policy.
	Live     *policy.Live
	Redactor *redact.Redactor
	Audit    Recorder // nil keeps no record
	Asker    approval.Asker
	// AskTimeout bounds how long a person may take; no answer is a denial.
	AskTimeout time.Duration
	// AllowTools need no consent, by name, the runtime's or the one that the
	// Agent Backplane's back ends share; denials still hold.
	AllowTools []string
	// Caller is who wants to do something, in questions; "" for Copilot.
	Caller string
	// Door names the API in the record, and Client the program that uses it, where
	// the context of a call names none (see bridge.WithCaller).
	Door   string
	Client string
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
	// Sessions are the directories in which Copilot may keep a directory for the
	// session, with its plan.
	Sessions []string
	// Whole, if set, sees what a tool returned without secrets but before it
	// is shortened for the model.
	Whole func(call bridge.ToolCall, result any)
	// Reason, if set, words the denial of a tool; "" leaves it as it is.
	Reason func(tool string, o policy.Outcome) string
	// Wall is the sandbox that calls are in which say that they are confined;
	// nil where there is none.
	Wall   *Wall
	Counts *Counts
	// Observer, if set, is told of each decision about a call.
	Observer Observer
	// Home is the bridge's own directory, with the user's policy file. Without
	// it questions do not offer to write a rule.
	Home string
}

// maxResult is how much of one string of a tool's result the model gets; of a
// client's own tool it gets all.
const maxResult = 10 << 10

// Guard is the gate of one session. Its methods may be called concurrently.
type Guard struct {
	opts    Options
	here    *paths.Workspace // as seen from where the session works
	results *redact.Redactor // for what tools return
	repos   repo.Finder
	// inForce is the policy, with the grants of the session.
	inForce  atomic.Pointer[policy.Policy]
	version  atomic.Pointer[policy.InForce] // what Live said last; nil without it
	lookedAt atomic.Int64                   // when it was asked, in nanoseconds

	looking  sync.Mutex      // held while Live is asked; before mu
	recorded *policy.InForce // the last that is on record; guarded by looking

	analyse func(script string) (shell.Analysis, error)

	mu      sync.Mutex
	plan    *plan             // of the sandbox, once it is made
	lifted  []policy.Addition // granted for the session
	own     map[string]bool   // files that the session has made
	session string
	agreed  map[string]bool // what a person has allowed for the session, by its hash
	calls   []*openCall     // allowed and not ended, the oldest first
	parsed  map[string]shell.Analysis
	// background takes away what commands in the background make; nil without.
	background func() (string, error)
	attempts   int
	asked      int // questions put to a person, to number them
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
	g := &Guard{opts: opts, here: here, results: opts.Redactor.Results(), agreed: map[string]bool{}, own: map[string]bool{},
		analyse: shell.Analyse, parsed: map[string]shell.Analysis{}}
	g.inForce.Store(opts.Policy)
	if opts.Live != nil {
		g.recorded = opts.Live.Now()
		g.version.Store(g.recorded)
		g.inForce.Store(g.recorded.Policy)
	}
	return g
}

// Session is the id of the session, "" before Begin.
func (g *Guard) Session() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.session
}

// Begin puts the beginning of a session on record, with the policy that it is
// under; the session's name is part of every entry from then on.
func (g *Guard) Begin(ctx context.Context, session string) error {
	input := map[string]any{"workspace": g.opts.Workspace.Root(), "policy": g.Sources()}
	if v := g.version.Load(); v != nil {
		input["sha256"] = v.SHA256
	}
	g.mu.Lock()
	g.session = session
	if g.instructions != nil {
		input["instructions"] = g.instructions
	}
	g.mu.Unlock()
	return g.record(ctx, audit.Entry{Hook: audit.HookStart, Input: input}, time.Now())
}

// End puts the end of the session on record. Commands in the background have
// been ended before.
func (g *Guard) End(ctx context.Context) error {
	return g.record(ctx, audit.Entry{Hook: audit.HookStop, Output: g.withholdBackground(false)}, time.Now())
}

// Hide returns a text without secrets. It is not put on record.
func (g *Guard) Hide(text string) string {
	clean, _ := g.opts.Redactor.String(text)
	return clean
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

// Test says what the policy would say to a tool call. Nobody is asked, and
// nothing is recorded.
func (g *Guard) Test(call bridge.ToolCall) policy.Outcome {
	a := g.action(call)
	out := g.policy().Evaluate(a)
	if out.Verdict == policy.Ask && g.configured(a, out) {
		out = policy.Outcome{Verdict: policy.Allow, Reason: alwaysAllowed, Stage: policy.StageAsk,
			Rule: policy.Rule{Key: "always allowed", Pattern: a.Called(), Source: policy.Source{Name: ConfigurationSource}}}
	}
	return out
}

// ConfigurationSource is what Options.AllowTools is called in an outcome.
const ConfigurationSource = "configuration"

const alwaysAllowed = "always allowed by configuration"

// configured says whether AllowTools stands for a person's consent.
func (g *Guard) configured(a policy.Action, out policy.Outcome) bool {
	return !out.Firm && slices.ContainsFunc(g.opts.AllowTools, func(name string) bool { return strings.EqualFold(name, a.Called()) })
}

// Before judges a tool call before anything happens.
func (g *Guard) Before(ctx context.Context, call bridge.ToolCall) bridge.Decision {
	began := time.Now()
	ctx, span := traces.Judge(ctx, call)
	unrecorded := g.refresh(ctx)
	version := g.version.Load()
	judged, refusal := call, ""
	var action policy.Action
	method, direct := directMethod(call)
	if direct {
		judged, action, refusal = g.directCall(call, method)
	} else {
		action = g.action(call)
	}
	var d bridge.Decision
	asked, agreed := false, false
	err := CheckDepth(DepthOfArgs(call.Args))
	switch {
	case err != nil:
		d = deny(err.Error())
	case unrecorded != nil:
		d = unwritten(unrecorded)
	case refusal != "":
		d = deny(refusal)
	default:
		d, asked = g.decide(ctx, action, requestOf(judged, action), agreed)
	}
	if d.Verdict == bridge.Allow {
		if why := g.unreadable(action); why != "" {
			d = deny(why)
		}
	}
	if d.Verdict == bridge.Allow && !direct { // the runtime asks nothing for a direct call
		d.Args, d.Consented = g.settled(call), asked
		if p := g.lastPlan(); p != nil && call.Confined && g.opts.Wall != nil {
			d.Confinement = &p.conf
		}
		g.rememberMade(action)
		g.begin(call, d, action, asked, version)
	}
	d = g.written(ctx, audit.Entry{Hook: audit.HookPreTool, Tool: call.Name, Call: call.ID, Input: call.Args, Sandbox: confined(action, d)}, d, began)
	g.opts.Counts.verdict(d, asked)
	g.observe(call, d, action, nil)
	g.trace(ctx, span, call, d, asked)
	return d
}

// trace ends the span of a decision.
func (g *Guard) trace(ctx context.Context, span *traces.Span, call bridge.ToolCall, d bridge.Decision, asked bool) {
	if span != nil {
		reason, _ := g.opts.Redactor.String(d.Reason)
		span.Judged(ctx, call, d.Verdict, reason, asked)
	}
}

// Review is Before for a call that has failed already. A person is not asked
// about it; it is denied, on record, if it would have been in any case.
func (g *Guard) Review(ctx context.Context, call bridge.ToolCall) bridge.Decision {
	alone := approval.Alone(g.opts.Asker)
	out := g.policy().Evaluate(g.action(call))
	if out.Verdict == policy.Allow || out.Verdict == policy.Ask && !alone {
		return allow(out.Reason)
	}
	return g.Before(ctx, call)
}

// unreadable says why a tool must not open one of its files: a FIFO, a socket
// or a device could let it wait for ever. Commands may use them.
func (g *Guard) unreadable(a policy.Action) string {
	if a.Kind != policy.KindRead && a.Kind != policy.KindWrite {
		return ""
	}
	for _, p := range a.Paths {
		if p.Outside || p.Rel == "" {
			continue
		}
		info, err := g.opts.Workspace.FS().Lstat(filepath.FromSlash(p.Rel))
		if err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0 {
			return fmt.Sprintf("%s is a FIFO, a socket or a device, not a file", cmp.Or(p.Name, p.Rel))
		}
	}
	return ""
}

// Permit answers a permission request of the runtime. A command that was judged
// when it was called is not judged again.
func (g *Guard) Permit(ctx context.Context, r bridge.PermissionRequest) bridge.Decision {
	began := time.Now()
	unrecorded := g.refresh(ctx)
	call, d := g.judged(r)
	var action policy.Action
	switch {
	case call != nil:
		action = call.action
	case unrecorded != nil:
		d = unwritten(unrecorded)
	default:
		var agreed bool
		action = g.requested(r)
		call, agreed = g.callOf(action, r)
		if call != nil && action.Tool == "" {
			action.Tool = ofServer(call.call.Name, action.Server)
		}
		ask := ctx
		var asked bool
		var span *traces.Span
		about := bridge.ToolCall{ID: r.CallID, Name: action.Called(), Args: r.Args, Confined: r.Confined}
		if call == nil { // or its decision has a span
			ask, span = traces.Judge(ctx, about)
		}
		d, asked = g.decide(ask, action, r, agreed)
		g.trace(ask, span, about, d, asked)
	}
	if d.Verdict != bridge.Allow {
		g.forget(call)
	}
	e := audit.Entry{Hook: audit.HookPermission, Tool: action.Called(), Call: r.CallID, Input: r, Sandbox: confined(action, d)}
	d.Grant = nil // it was given when the call was judged
	d = g.written(ctx, e, d, began)
	g.observe(bridge.ToolCall{ID: r.CallID, Name: action.Called(), Args: r.Args}, d, action, &r)
	return d
}

// After hides secrets in every string of a result and shortens long strings,
// before the model or a person sees it.
func (g *Guard) After(ctx context.Context, call bridge.ToolCall, result any) (any, error) {
	began := time.Now()
	notice := g.ended(call, mayStillRun(call, result))
	if reason := g.strayed(call); reason != "" {
		return nil, g.recordResult(ctx, call, nil, nil, 0, errors.New(reason), began)
	}
	clean, hits, err := g.redactorFor(ctx, call, result).ValueContext(ctx, result)
	if err != nil {
		return nil, g.recordResult(ctx, call, nil, nil, 0, withheld(err), began)
	}
	if g.opts.Whole != nil {
		g.opts.Whole(call, clean)
	}
	if !slices.Contains(g.opts.ClientTools, call.Name) { // its caller has read it
		clean = shorten(clean)
	}
	if m, ok := clean.(map[string]any); ok && notice != "" {
		text, _ := m["textResultForLlm"].(string)
		m["textResultForLlm"] = text + "\n" + notice
	}
	var told returned
	told.add(textOf(clean))
	if err := g.recordResult(ctx, call, clean, told.sum(), hits, nil, began); err != nil {
		return nil, err
	}
	return clean, nil
}

// recordResult records the shown part of a call's result, or, in failed, why it
// is withheld. It returns failed, joined with an error of the record.
func (g *Guard) recordResult(ctx context.Context, call bridge.ToolCall, output any, result *audit.Result, hidden int, failed error, began time.Time) error {
	e := audit.Entry{Hook: audit.HookPostTool, Tool: call.Name, Call: call.ID, Output: output, Result: result, Decision: "allow"}
	switch {
	case failed != nil:
		e.Output, e.Result, e.Decision, e.Reason = nil, nil, "deny", failed.Error()
	case hidden > 0:
		e.Reason = fmt.Sprintf("%d secrets hidden", hidden)
	}
	return errors.Join(failed, g.record(ctx, e, began))
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
	g.ended(call, false)
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
		return unwritten(err)
	}
	return d
}

// unwritten is the denial of what cannot be put on record.
func unwritten(err error) bridge.Decision {
	refused := deny(err.Error() + ". " + bridge.AsError(err).Remedy)
	refused.Failure = err
	return refused
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
	c := bridge.CallerOf(ctx)
	e.Caller, e.Connection, e.Request = cmp.Or(c.Name, g.opts.Client), c.Connection, c.Request
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
