package bridge

import (
	"context"
	"iter"
)

// Session is a live conversation with an agent. One turn runs at a time; a
// second Send while one runs yields CodeConflict. Abort, Resolve and Close may
// be called from other goroutines while a turn runs.
type Session interface {
	ID() string
	// Send starts a turn when the sequence is ranged over, and streams it. A
	// turn that succeeds ends with TurnEnded; one that fails ends with a
	// non-nil error in its place. Leaving the loop early, or ending ctx,
	// aborts the turn before Send's sequence returns.
	Send(ctx context.Context, p Prompt) iter.Seq2[Event, error]
	// Resolve answers a parked tool call (see ToolRequested).
	Resolve(ctx context.Context, requestID string, result ToolResult) error
	// Abort ends the running turn; without one it does nothing.
	Abort(ctx context.Context) error
	// SetModel switches the model from the next turn on.
	SetModel(ctx context.Context, model, effort string) error
	// History returns the conversation so far, oldest first.
	History(ctx context.Context) ([]Event, error)
	// Close releases the session; its stored state stays.
	Close(ctx context.Context) error
}

// AnswersKind says whose words the model's are.
type AnswersKind string

// The kinds.
const (
	AnswersProvider AnswersKind = "provider" // a model provider of the user's own
	AnswersGitHub   AnswersKind = "github"   // GitHub's models, by a token or the user's login
	AnswersDemo     AnswersKind = "demo"     // the built-in demo model
	AnswersAgent    AnswersKind = "agent"    // another ACP agent, with its own models
	AnswersRunner   AnswersKind = "runner"   // the user's own runner
	AnswersEditor   AnswersKind = "editor"   // the models of the editor that has started the bridge
)

// Answers says who answers in a session.
type Answers struct {
	Kind   AnswersKind `json:"kind"`
	Detail string      `json:"detail"` // for people
}
