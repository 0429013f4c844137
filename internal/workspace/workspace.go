// Package workspace is a directory under a guard: reading, listing, searching,
// patching, formatting and running, each asked of the guard first and recorded.
// It does not do the work itself; the packages below it do, and they know no
// policy. Results pass the guard too, which hides secrets. The tool bus and the
// MCP API call it; package app opens it for them and for orchestrated tasks.
package workspace

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
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

// Guard decides what may be done and hides what may not be seen: *guard.Guard.
type Guard interface {
	guard.Judge
	// Usable says why the policy cannot be used, if it cannot.
	Usable() error
	// Rules tells one policy from another.
	Rules() string
	// MayRead says whether a file may be seen in lists and among hits. It does
	// not ask and records nothing.
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
	// Wrap is a command in the sandbox, with its grant.
	Wrap(ctx context.Context, c program.Command, grant *bridge.Confinement) (program.Command, error)
	// WrapReader is a command in the sandbox that cannot write the workspace.
	WrapReader(ctx context.Context, c program.Command) (program.Command, error)
	// Watch begins to look after files that configure agents, editors or git.
	// end takes away those that are new, and says so.
	Watch() (end func() (notice string, err error))
}

// Options make a Workspace.
type Options struct {
	Guard   Guard
	Sandbox Sandbox // nil where there is none
	Journal string  // directory for what a crash must be undone with, outside the workspace
	// Tell hears of an interrupted patch that was undone before the next one.
	Tell    func(string)
	Ripgrep string // path, or "" for the scanner
	// Servers are language servers over the built-in table, Tasks commands
	// that the user has declared by name.
	Servers map[string]lsp.Server
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
	language *lsp.Manager
	searches chan struct{} // held by those that run
}

// Recover undoes what a crash has left half done in a directory, and tells a
// person about it; "" if there is nothing to tell. journal is that of Options.
// It never stands in the way of using the directory: what cannot be undone yet
// is told each time.
func Recover(ctx context.Context, dir, journal string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "" // using it reports that
	}
	defer func() { _ = root.Close() }() // a handle of a directory
	// A process that holds the lock for so long is at work, and alive.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	done, err := patch.Recover(ctx, root, journal)
	told := done.String()
	if e := bridge.AsError(err); err != nil && e.Code == bridge.CodeConflict {
		told = strings.TrimSpace(told + " " + e.Error() + ". " + e.Remedy)
	}
	return told
}

// Open opens the directory.
func Open(dir string, opts Options) (*Workspace, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the workspace cannot be opened", Cause: err, Remedy: "name an existing directory"}
	}
	w := &Workspace{dir: dir, root: root, opts: opts, searches: make(chan struct{}, maxSearches)}
	lang := lsp.Options{Servers: opts.Servers, Env: opts.Env, Trees: opts.Trees, Permit: w.permit, Rules: opts.Guard.Rules}
	if w.Confined() {
		// What they change they say, and the bridge writes it.
		lang.Confine = opts.Sandbox.WrapReader
	}
	w.language = lsp.New(dir, lang)
	return w, nil
}

// Confined says whether programs run in a sandbox.
func (w *Workspace) Confined() bool { return w.opts.Sandbox != nil }

// permit asks the guard about a language server or a formatter, as about a
// command of the shell. Only one that may run code of the project is put to a
// person.
func (w *Workspace) permit(ctx context.Context, start lsp.Start) error {
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
		return denied(tool)(d)
	}
	return nil
}

// Dir is the directory.
func (w *Workspace) Dir() string { return w.dir }

// Close ends the language servers.
func (w *Workspace) Close(ctx context.Context) error {
	return errors.Join(w.language.Close(ctx), w.root.Close())
}

// guarded runs an operation under the guard. Its result holds no text that
// could be secret.
func guarded[T any](ctx context.Context, w *Workspace, tool string, args map[string]any, do func() (T, error)) (T, error) {
	return guard.Do(ctx, w.opts.Guard, bridge.ToolCall{Name: tool, Args: args}, denied(tool), func(bridge.Decision) (T, error) { return do() }, nil)
}

// denied words the error of a call that is not allowed.
func denied(tool string) func(bridge.Decision) error {
	return guard.Denied(tool, "change the policy (docs/guides/policy.md), or have somebody there who can consent")
}
