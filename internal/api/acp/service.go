// Package acp is the bridge as an agent of the Agent Client Protocol, over standard
// streams or TCP. It translates between acpwire's messages and bridge's types, and keeps
// the open sessions, their turns, modes and models. Questions of the policy become
// permission requests. Of the client it uses fs/read_text_file (for unsaved
// changes) and elicitation/create, never fs/write_text_file or terminal/*: Copilot's
// own tools work under the guard. Package app calls Serve and gives it a Service.
package acp

import (
	"context"
	"iter"
	"log/slog"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Service is what the door stands on. Its methods are called concurrently.
type Service interface {
	Open(ctx context.Context, o Opening) (Session, error)
	// Resume opens a stored session, named by its whole id.
	Resume(ctx context.Context, id string, o Opening) (Session, error)
	// Sessions lists what can be resumed, the one used last first.
	Sessions(ctx context.Context) ([]bridge.SessionInfo, error)
	Delete(ctx context.Context, id string) error
	Models(ctx context.Context) ([]bridge.Model, error)
	// Login returns nil if there is a login or none is needed.
	Login(ctx context.Context) error
}

// Opening is a session as a client wants it, and who can be asked in it.
type Opening struct {
	WorkingDir string
	Client     string // as initialize has named it
	MCPServers map[string]bridge.MCPServer
	Asker      approval.Asker
	Person     bridge.Person // nil if the client cannot put questions
}

// Session is an open conversation. It runs one turn at a time.
type Session interface {
	ID() string
	Opened() bridge.SessionOpened
	Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error]
	SetModel(ctx context.Context, model, effort string) error
	// Mode is one of bridge's, or "" for the agent's own. SetMode keeps it for
	// this and later connections.
	Mode() string
	SetMode(ctx context.Context, mode string) error
	History(ctx context.Context) ([]bridge.Event, error)
	Commands(ctx context.Context) ([]bridge.Command, error)
	Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error)
	// TitleOf returns a line that stands for a prompt, without its secrets.
	TitleOf(prompt string) string
	// Consult reads a file for a prompt: if the policy lets it be read, what
	// read returns is put on record and returned with its secrets hidden.
	Consult(ctx context.Context, path string, read func(context.Context) (string, error)) (string, error)
	Close(ctx context.Context) error
}

// Options are what the door tells about the bridge.
type Options struct {
	Version string
	// Model and Effort are what a new session has unless the client chooses.
	Model, Effort string
	// Login, if set, is how to log in, for clients that ask.
	Login  string
	Logger *slog.Logger
}
