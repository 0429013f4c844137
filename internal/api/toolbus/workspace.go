package toolbus

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Workspace does what this door has understood, under its own policy. Its
// methods are called concurrently and return when ctx ends. Errors that reach
// a person are *bridge.Error. *workspace.Folders has all of them but Status.
type Workspace interface {
	Read(ctx context.Context, path string, o files.ReadOptions) (files.Content, error)
	Files(ctx context.Context, o files.ListOptions) (files.Listing, error)
	// Search gives take the hits as they are found; its result has none.
	Search(ctx context.Context, o search.Options, take search.Taker) (search.Result, error)
	Symbols(ctx context.Context, path string) ([]lsp.Symbol, error)
	// ApplyPatch applies all of a diff or nothing. That it does not fit is a
	// result, not an error.
	ApplyPatch(ctx context.Context, diff string, o workspace.PatchOptions) (workspace.Patched, error)
	Format(ctx context.Context, path string) (workspace.Rewritten, error)
	Organize(ctx context.Context, path string) (workspace.Rewritten, error)
	// Tasks returns what there is along with the error for a file that cannot
	// be understood.
	Tasks(ctx context.Context) ([]task.Task, error)
	// RunTask and Shell call OnOutput one call at a time and not after they
	// have returned. A command that fails is a result, not an error.
	RunTask(ctx context.Context, name string, o workspace.RunOptions) (task.Result, error)
	Shell(ctx context.Context, folder, command string, o workspace.RunOptions) (task.Result, error)
	Status(ctx context.Context) (Status, error)
}

// Progress hears of a running command's output: a piece of "stdout" or
// "stderr". It blocks while the client is slow to read.
type Progress = func(stream, text string)

// ReadParams, and the types like it, are the parameters of a method by name.
// What may be left out has omitempty; the zero value then means the default.
// Their order is that of positional parameters and must stay.
type ReadParams struct {
	Path   string `json:"path" jsonschema:"file, relative to the workspace, with slashes"`
	Offset uint32 `json:"offset,omitempty" jsonschema:"first line, from 1 (default 1)"`
	Limit  uint32 `json:"limit,omitempty" jsonschema:"most lines (default: all, up to a size)"`
}

// ListParams are those of mcp.fs.list.
type ListParams struct {
	Glob    Patterns `json:"glob,omitempty" jsonschema:"patterns of files to list, such as **/*.go (default: all)"`
	Exclude Patterns `json:"exclude,omitempty" jsonschema:"patterns of files and directories to leave out"`
	Hidden  bool     `json:"hidden,omitempty" jsonschema:"list names that begin with a dot, too"`
	Limit   uint32   `json:"limit,omitempty" jsonschema:"most files (default 1000)"`
}

// SearchParams are those of mcp.search.code.
type SearchParams struct {
	Query         string   `json:"query" jsonschema:"text to find in a line"`
	Glob          Patterns `json:"glob,omitempty" jsonschema:"patterns of files to search (default: all)"`
	Exclude       Patterns `json:"exclude,omitempty" jsonschema:"patterns of files and directories to leave out"`
	MaxResults    uint32   `json:"maxResults,omitempty" jsonschema:"most hits (default 200)"`
	Regex         bool     `json:"regex,omitempty" jsonschema:"the query is a regular expression"`
	CaseSensitive bool     `json:"caseSensitive,omitempty" jsonschema:"tell a from A"`
	Word          bool     `json:"word,omitempty" jsonschema:"find whole words only"`
	Context       uint32   `json:"context,omitempty" jsonschema:"lines to show before and after each hit"`
	Hidden        bool     `json:"hidden,omitempty" jsonschema:"search names that begin with a dot, too"`
}

// PathParams are those of methods on one file.
type PathParams struct {
	Path string `json:"path" jsonschema:"file, relative to the workspace, with slashes"`
}

// PatchParams are those of mcp.edit.applyPatch.
type PatchParams struct {
	UnifiedDiff     string `json:"unifiedDiff" jsonschema:"the diff, as git or diff -u writes it"`
	Verify          Verify `json:"verify,omitempty" jsonschema:"SHA-256 that files must have before, by path; empty: there must be no such file. What the diff itself says of them is verified in any case, so true asks for nothing more"`
	DryRun          bool   `json:"dryRun,omitempty" jsonschema:"say what would happen, and write nothing"`
	Format          bool   `json:"format,omitempty" jsonschema:"format the changed files afterwards"`
	OrganizeImports bool   `json:"organizeImports,omitempty" jsonschema:"organise the imports of the changed files afterwards"`
}

// TaskParams are those of mcp.task.run.
type TaskParams struct {
	Name      string   `json:"name" jsonschema:"as mcp.task.list has it; a label alone will do if only one task has it"`
	Args      []string `json:"args,omitempty" jsonschema:"further arguments of the task's command"`
	TimeoutMs uint32   `json:"timeoutMs,omitempty" jsonschema:"how long it may run (default 10 minutes)"`
}

// ShellParams are those of mcp.shell.run.
type ShellParams struct {
	Cmd       string `json:"cmd" jsonschema:"a line for the shell"`
	TimeoutMs uint32 `json:"timeoutMs,omitempty" jsonschema:"how long it may run (default 10 minutes)"`
	Folder    string `json:"folder,omitempty" jsonschema:"folder to run it in, by its name; needed where several are open in an editor"`
}

// Symbols is what a file declares.
type Symbols struct {
	Symbols []lsp.Symbol `json:"symbols"`
}

// Tasks is what the workspace knows how to run.
type Tasks struct {
	Tasks []task.Task `json:"tasks"`
	// Problems are files with tasks that could not be understood.
	Problems []string `json:"problems,omitempty"`
}

// Status is what the bridge says of itself.
type Status struct {
	Version   string             `json:"version"`
	URL       string             `json:"url,omitempty"` // of the HTTP APIs
	RPC       string             `json:"rpc,omitempty"` // of this door
	Workspace string             `json:"workspace"`     // the directory; of several the first, and empty for none
	Folders   []workspace.Folder `json:"folders,omitempty"`
	ReadOnly  bool               `json:"readOnly"`
	Copilot   string             `json:"copilot,omitempty"` // ok or unavailable
	Answers   string             `json:"answers,omitempty"` // who does
	Search    search.Engine      `json:"search,omitempty"`  // what searches
	Languages []lsp.ServerStats  `json:"languages,omitempty"`
}
