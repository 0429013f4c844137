// Package workspace is a directory under a guard: reading, listing,
// searching, patching, formatting and running, each asked of the guard first
// and on record. The work itself is done by the packages below it, which know
// no policy; the tool bus and the MCP door call this one.
//
// The bridge's own access goes through os.Root, so neither a link nor a change
// at the wrong moment leads outside. Results pass the guard too: what looks
// like a secret is hidden from whoever asked.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/language"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
)

// The operations as the guard knows them: tool names in policies and records.
const (
	ToolRead     = "mcp.fs.read"
	ToolList     = "mcp.fs.list"
	ToolSearch   = "mcp.search.code"
	ToolSymbols  = "mcp.symbols.list"
	ToolPatch    = "mcp.edit.applyPatch"
	ToolFormat   = "mcp.format.apply"
	ToolOrganize = "mcp.imports.organize"
	ToolTask     = "mcp.task.run"
	ToolTasks    = "mcp.task.list"
	ToolShell    = "mcp.shell.run"
	// The start of a language server and of a formatter.
	ToolServer    = "mcp.language.server"
	ToolFormatter = "mcp.language.formatter"
)

// Guard decides what may be done and hides what may not be seen.
// *guard.Guard is one.
type Guard interface {
	Before(ctx context.Context, call bridge.ToolCall) bridge.Decision
	// Reveal hides secrets in texts before somebody sees them, records that,
	// and returns how many there were.
	Reveal(ctx context.Context, call bridge.ToolCall, texts ...*string) (int, error)
	Failed(ctx context.Context, call bridge.ToolCall, message string)
	// MayRead says whether a file may be seen in lists and among hits. It asks
	// nobody and records nothing.
	MayRead(path string) bool
	// RevealPart is Reveal for what cut leaves of a text whose lines keep
	// their places.
	RevealPart(ctx context.Context, call bridge.ToolCall, text *string, cut func(string) string) (int, error)
	// View is MayRead and Reveal for results that come in many pieces.
	View(ctx context.Context, call bridge.ToolCall) bridge.View
	// Stream hides secrets in a text that comes in pieces.
	Stream() bridge.TextMask
}

// Sandbox holds programs to what they may see and change.
type Sandbox interface {
	// Wrap is a command in the sandbox, with what was granted to it.
	Wrap(ctx context.Context, c program.Command, grant *bridge.Confinement) (program.Command, error)
	// Watch begins to look after files that configure agents, editors or git.
	// end takes away those that are new, and says so.
	Watch() (end func() (notice string, err error))
}

// Options make a Workspace.
type Options struct {
	Guard   Guard
	Sandbox Sandbox // nil where there is none
	Journal string  // directory for what a crash must be undone with, outside the workspace
	Ripgrep string  // path, or "" for the scanner
	// Servers are language servers over the built-in table, Tasks commands
	// that the user has declared by name.
	Servers map[string]language.Server
	Tasks   map[string]string
	// Env is the environment of commands and language servers; it should hold
	// no secrets.
	Env   []string
	Trees program.Trees
	// Editor is a running editor in which files may be open, or nil.
	Editor Editor
}

// Workspace is a directory. Its methods may be called concurrently.
type Workspace struct {
	dir      string
	root     *os.Root
	opts     Options
	language *language.Manager
}

// Open opens the directory and undoes what a crash has left half done.
func Open(ctx context.Context, dir string, opts Options) (*Workspace, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the workspace cannot be opened", Cause: err, Remedy: "name an existing directory"}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := patch.Recover(ctx, root, opts.Journal); err != nil {
		return nil, errors.Join(fmt.Errorf("undoing an interrupted patch: %w", err), root.Close())
	}
	w := &Workspace{dir: dir, root: root, opts: opts}
	lang := language.Options{Servers: opts.Servers, Env: opts.Env, Trees: opts.Trees, Permit: w.permit}
	if w.Confined() {
		lang.Confine = func(ctx context.Context, c program.Command) (program.Command, error) {
			return opts.Sandbox.Wrap(ctx, c, nil)
		}
	}
	w.language = language.New(dir, lang)
	return w, nil
}

// Confined says whether programs run in a sandbox.
func (w *Workspace) Confined() bool { return w.opts.Sandbox != nil }

// permit asks the guard about a language server or a formatter, as about a
// command of the shell. Only one that may run code of the project is put to a
// person.
func (w *Workspace) permit(ctx context.Context, start language.Start) error {
	tool, what := ToolServer, "start the language server for "
	if start.Formatter {
		tool, what = ToolFormatter, "run the formatter for "
	}
	what += start.Language
	if !start.Harmless {
		what += ", which may run code of the project"
	}
	d := w.opts.Guard.Before(ctx, bridge.ToolCall{Name: tool, Confined: w.Confined(), Args: map[string]any{"command": start.Program.Line(),
		"program": start.Program.Path, "language": start.Language, "harmless": start.Harmless, "description": what}})
	if d.Verdict != bridge.Allow {
		return denied(tool, d.Reason)
	}
	return nil
}

// Dir is the directory.
func (w *Workspace) Dir() string { return w.dir }

// Close ends the language servers.
func (w *Workspace) Close(ctx context.Context) error {
	return errors.Join(w.language.Close(ctx), w.root.Close())
}

// guarded asks the guard, runs an operation and, if it went well, lets the
// guard hide what texts names of its result.
func guarded[T any](ctx context.Context, w *Workspace, tool string, args map[string]any, do func() (T, error), texts func(*T) []*string) (T, int, error) {
	return guardedCall(ctx, w, bridge.ToolCall{Name: tool, Args: args}, func(bridge.Decision) (T, error) { return do() }, texts)
}

// guardedCall is guarded for a call of which more is known. do gets what it was
// granted besides its sandbox.
func guardedCall[T any](ctx context.Context, w *Workspace, call bridge.ToolCall, do func(d bridge.Decision) (T, error), texts func(*T) []*string) (T, int, error) {
	var none T
	d := w.opts.Guard.Before(ctx, call)
	if d.Verdict != bridge.Allow {
		return none, 0, denied(call.Name, d.Reason)
	}
	result, err := do(d)
	if err != nil {
		w.opts.Guard.Failed(ctx, call, err.Error())
		return none, 0, err
	}
	var shown []*string
	if texts != nil {
		shown = texts(&result)
	}
	hidden, err := w.opts.Guard.Reveal(ctx, call, shown...)
	if err != nil {
		return none, 0, err
	}
	return result, hidden, nil
}

func denied(tool, reason string) error {
	return &bridge.Error{Code: bridge.CodeDenied, Message: tool + " was denied: " + reason,
		Remedy: "change the policy (docs/security.md), or have somebody there who can consent"}
}
