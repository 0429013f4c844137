package bridge

import (
	"context"
	"encoding/json"
)

// ToolSpec declares a tool that the caller runs itself.
type ToolSpec struct {
	Name        string
	Description string
	Schema      map[string]any
}

// ToolCall is one use of a tool by the model.
type ToolCall struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Args   any    `json:"args,omitempty"`   // as decoded by encoding/json
	Server string `json:"server,omitempty"` // the MCP server, if it has one
	Parent string `json:"parent,omitempty"` // the call that started this sub-agent
	// Agents are the names of the sub-agents that make the call, the outermost
	// first, where the agent knows them.
	Agents []string `json:"-"`
	// Confined says that the session's confinement holds for whatever the call
	// starts or touches on this machine.
	Confined bool `json:"-"`
	// NoGrant: the call belongs to a sub-agent or runs in the background, so the
	// sandbox cannot be widened for it. What it would need is denied, not asked.
	NoGrant bool `json:"-"`
}

// RuntimeCall begins the name of a ToolCall that is a direct call of a method of
// Copilot's runtime.
const RuntimeCall = "runtime/"

// ToolResult answers a parked call.
type ToolResult struct {
	Text string
	// Failed tells the model that the tool did not succeed.
	Failed bool
}

// PermissionKind is what a permission request is about.
type PermissionKind string

// The kinds that the runtime is known to ask about. Anything else arrives as
// PermissionUnknown with its name in PermissionRequest.Native.
const (
	PermissionShell   PermissionKind = "shell"
	PermissionWrite   PermissionKind = "write"
	PermissionRead    PermissionKind = "read"
	PermissionMCP     PermissionKind = "mcp"
	PermissionURL     PermissionKind = "url"
	PermissionMemory  PermissionKind = "memory"
	PermissionCustom  PermissionKind = "custom-tool"
	PermissionHook    PermissionKind = "hook"
	PermissionUnknown PermissionKind = "unknown"
)

// PermissionRequest is the runtime asking whether it may go on. Which fields
// are set depends on Kind.
type PermissionRequest struct {
	ID        string         `json:"id,omitempty"`
	Kind      PermissionKind `json:"kind"`
	Native    string         `json:"native,omitempty"` // the runtime's own name of the kind
	CallID    string         `json:"call_id,omitempty"`
	Tool      string         `json:"tool,omitempty"`
	Server    string         `json:"server,omitempty"`
	Intention string         `json:"intention,omitempty"`
	Command   string         `json:"command,omitempty"`  // shell
	Segments  []string       `json:"segments,omitempty"` // shell: what the runtime saw in it
	Paths     []string       `json:"paths,omitempty"`    // read, write, shell
	URLs      []string       `json:"urls,omitempty"`     // url, shell
	Diff      string         `json:"diff,omitempty"`     // write
	Args      any            `json:"args,omitempty"`     // mcp, custom-tool, hook
	ReadOnly  bool           `json:"read_only,omitempty"`
	Agents    []string       `json:"agents,omitempty"` // see ToolCall
	Confined  bool           `json:"-"`                // see ToolCall
}

// Verdict is the short form of a decision. The zero value denies.
type Verdict int

// The verdicts.
const (
	Deny Verdict = iota
	Allow
)

// String returns "allow" or "deny".
func (v Verdict) String() string {
	if v == Allow {
		return "allow"
	}
	return "deny"
}

// MarshalText makes verdicts readable in JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText accepts only "allow" as permission; anything else denies.
func (v *Verdict) UnmarshalText(b []byte) error {
	*v = Deny
	if string(b) == "allow" {
		*v = Allow
	}
	return nil
}

// Decision is a verdict and why. The zero value denies without a reason.
type Decision struct {
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	// By is where a person has decided, such as "terminal"; "" if none has.
	By string `json:"by,omitempty"`
	// Basis says what the decision rests on, and Rule names the rule of the policy
	// that had a say. Both are for the record; see the Basis constants.
	Basis string `json:"-"`
	Rule  string `json:"-"`
	// Args, if not nil, are what the tool is called with instead. Only
	// Gate.Before may set it.
	Args any `json:"-"`
	// Grant is what an allowed call needs besides the session's confinement. It
	// holds for this call alone. Only Gate.Before may set it, and only for a
	// call that is Confined.
	Grant *Confinement `json:"-"`
	// Confinement, if set, is what holds for the session from this call on: the
	// policy may have changed. Only Gate.Before may set it.
	Confinement *Confinement `json:"-"`
	// Consented: a person has seen what would happen, and agreed.
	Consented bool `json:"-"`
	// Failure is why nothing could be decided: the decision could not be put on
	// record. No policy is to blame.
	Failure error `json:"-"`
}

// What a decision can rest on. Without one of these the guard itself has decided.
const (
	BasisPolicy        = "policy"
	BasisConfiguration = "configuration" // the tool needs no consent
	BasisPerson        = "person"
	BasisSession       = "session" // a person has consented for the session
	BasisNobody        = "nobody"  // a person would have been needed
)

// Denied is the error of a call that is not allowed.
func (d Decision) Denied(message, remedy string) error {
	if d.Failure != nil {
		return d.Failure
	}
	return &Error{Code: CodeDenied, Message: message, Remedy: remedy}
}

// Recovery is what to do about an error inside a turn.
type Recovery string

// The recoveries. RecoverDefault leaves it to the runtime.
const (
	RecoverDefault Recovery = ""
	RecoverRetry   Recovery = "retry"
	RecoverSkip    Recovery = "skip"
	RecoverAbort   Recovery = "abort"
)

// Gate decides what a session may do. Agents call it; the guard implements
// it. Its methods are called concurrently, for sub-agents too, and a panic or
// a cancelled context counts as a denial.
type Gate interface {
	// Prompt sees the user's text before the model does and may rewrite it.
	Prompt(ctx context.Context, text string) (string, error)
	// Before sees every tool call before anything happens. To allow here is
	// only to raise no objection: Permit may still be asked.
	Before(ctx context.Context, call ToolCall) Decision
	// Permit answers the runtime's own permission request.
	Permit(ctx context.Context, req PermissionRequest) Decision
	// After sees a tool's result (as decoded by encoding/json) before the
	// model does, and returns what the model gets instead.
	After(ctx context.Context, call ToolCall, result any) (any, error)
	// Failed hears of a tool call that ended in an error.
	Failed(ctx context.Context, call ToolCall, message string)
	// Recover classifies an error that the runtime reports.
	Recover(ctx context.Context, message string, recoverable bool) Recovery
}

// Reviewer is a Gate that also judges a call which failed before the agent
// asked about it. Review asks no person, because the call is already over.
type Reviewer interface {
	Review(ctx context.Context, call ToolCall) Decision
}

// Mask hides secrets in the events of one turn. It calls emit
// for each event that may go on, none or several for one that comes in, and
// returns false when emit has. A Gate may have a method Mask() Mask; the
// engine then passes the events of every turn through one.
type Mask func(ev Event, emit func(Event) bool) bool

// TextMask hides secrets in a text that comes in pieces: Write
// returns what can be let out, Flush the rest. It is for one goroutine.
type TextMask interface {
	Write(chunk string) (safe string)
	Flush() string
}

// View is one look at the files of a workspace. It is for one goroutine.
type View interface {
	// MayRead says whether a file may be seen.
	MayRead(path string) bool
	// Hide removes secrets from a text.
	Hide(text *string)
	// HideLines is Hide that leaves as many lines as there were.
	HideLines(text *string)
	// End records the files shown. If it fails, nothing may be shown.
	End(ctx context.Context) error
}

// Person answers the agent's questions.
type Person interface {
	Ask(ctx context.Context, q Question) (Answer, error)
	Elicit(ctx context.Context, e Elicitation) (ElicitationAnswer, error)
}

// Question is free text with optional choices.
type Question struct {
	Text     string   `json:"text"`
	Choices  []string `json:"choices,omitempty"`
	Freeform bool     `json:"freeform"`
}

// Answer is a person's reply to a Question.
type Answer struct {
	Text     string `json:"text"`
	Freeform bool   `json:"freeform"`
}

// Elicitation asks for structured input described by a JSON schema, or, with
// a URL, for something to be done in a browser.
type Elicitation struct {
	Message string          `json:"message"`
	Source  string          `json:"source,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	URL     string          `json:"url,omitempty"`
}

// ElicitationAnswer is a person's reply: "accept" with content, "decline", or
// "cancel".
type ElicitationAnswer struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"`
}
