// Package approval asks a person whether something may happen. The guard
// decides when to ask; a door knows how. Whoever cannot ask denies.
package approval

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Question is one thing that needs a person's consent.
type Question struct {
	// Request has the ID of the PermissionAsked event that tells of it, if
	// there is one.
	Request bridge.PermissionRequest
	// Who wants it; "" for Copilot.
	Who string
	// Summary is one line, such as "run: npm test".
	Summary string
	// Detail is what a person may want to see first: a diff, a long command.
	Detail string
}

// Answer is what the person said. The zero value denies.
type Answer int

const (
	No      Answer = iota
	Once           // this time
	Session        // this, and the very same thing again in this session
)

// Asker puts a question to a person. It is called concurrently, and returns
// when ctx ends at the latest.
type Asker interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Yes consents to everything, as its user asked for with --yes.
type Yes struct{}

// Ask always answers Once.
func (Yes) Ask(context.Context, Question) (Answer, error) { return Once, nil }

// Nobody is what to use when there is no person.
type Nobody struct{}

// Ask always refuses, and says how to be asked.
func (Nobody) Ask(context.Context, Question) (Answer, error) {
	return No, &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval and nobody is there to give it",
		Remedy: "run in a terminal to be asked, or pass --yes"}
}
