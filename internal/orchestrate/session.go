package orchestrate

import (
	"context"
	"iter"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Session is what a task is done in: a bridge.Session that its opener has put
// the guard in front of.
type Session interface {
	ID() string
	Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error]
	Close(ctx context.Context) error
}

// Opening says what a session is for.
type Opening struct {
	Dir   string
	Title string
	Task  string // whose session it is, in a word, for whoever is asked for consent
	Run   string // "" before there is one
	// Planning sessions only look.
	Planning bool
}

// Opener opens a session. It is called concurrently.
type Opener func(ctx context.Context, o Opening) (Session, error)
