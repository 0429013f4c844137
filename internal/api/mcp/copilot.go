package mcp

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// The tools of Copilot.
const (
	ToolReadFile    = "copilot_read_file"
	ToolCreateFile  = "copilot_create_file"
	ToolListFiles   = "copilot_list_files"
	ToolCodeTask    = "copilot_code_task"
	ToolOrchestrate = "copilot_orchestrate"
)

type readFileInput struct {
	Path string `json:"path" jsonschema:"relative to the workspace"`
	nested
}

type createFileInput struct {
	Path      string `json:"path" jsonschema:"relative to the workspace; directories are made as needed"`
	Content   string `json:"content"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace a file that exists; otherwise that is an error"`
	nested
}

type listFilesInput struct {
	Directory string `json:"directory,omitempty" jsonschema:"relative to the workspace (default: all of it)"`
	nested
}

type codeTaskInput struct {
	Prompt     string `json:"prompt" jsonschema:"what to do, with all that Copilot needs to know: files, constraints, how to tell that it is done"`
	WorkingDir string `json:"workingDir,omitempty" jsonschema:"directory to work in, inside the workspace (default: the workspace)"`
	Timeout    int64  `json:"timeout,omitempty" jsonschema:"longest time in milliseconds (default: the configuration's)"`
	Model      string `json:"model,omitempty" jsonschema:"model to use (default: the configuration's)"`
	placed
	nested
}

type orchestrateInput struct {
	Task           string `json:"task" jsonschema:"what to do as a whole, with all that Copilot needs to know to divide it into parts"`
	MaxConcurrency int    `json:"maxConcurrency,omitempty" jsonschema:"most parts at a time (default 3)"`
	Timeout        int64  `json:"timeout,omitempty" jsonschema:"longest time for the whole in milliseconds; what is done by then is kept (default: none)"`
	placed
	nested
}

// placed is the argument of tools whose work another machine can do.
type placed struct {
	Worker string `json:"worker,omitempty" jsonschema:"have it done by a worker of the user's fleet of machines instead of here: any, or labels such as gpu=yes with commas between; only if the user asks for that"`
}

const (
	defaultConcurrency = 3
	maxConcurrency     = 16
)

// The bounds of arguments that several tools have.
var (
	notEmpty     = bounds{least: 1}
	promptBounds = bounds{least: 1, most: 1 << 20}
	timeBounds   = bounds{most: 24 * 3600 * 1000} // milliseconds
)

// NewCopilot serves Copilot's tools. Nothing is started before it is needed.
// The caller must close it, or have Serve do so.
func NewCopilot(c Copilot, opts Options) *Server {
	s := newServer("copilot-bridge", "GitHub Copilot",
		"GitHub Copilot's coding agent in a workspace, under the user's policy. Delegate a coding task with copilot_code_task; "+
			"it may take minutes and reports progress. A large one is divided into parts by copilot_orchestrate. The other tools read, create and list files without a model.", opts, nil)
	add(s, tool{name: ToolReadFile, title: "Read a file", readOnly: true, bounds: map[string]bounds{"path": notEmpty},
		about: "Read a file of the workspace. Secrets in it are hidden."},
		withoutText(func(ctx context.Context, in readFileInput) (files.Content, error) {
			return c.Read(ctx, in.Path, files.ReadOptions{})
		}))
	add(s, tool{name: ToolCreateFile, title: "Create a file", destructive: true, bounds: map[string]bounds{"path": notEmpty},
		about: "Create a file in the workspace, or replace one if overwrite is set."},
		withoutText(func(ctx context.Context, in createFileInput) (workspace.Created, error) {
			return c.Create(ctx, in.Path, in.Content, in.Overwrite)
		}))
	add(s, tool{name: ToolListFiles, title: "List files", readOnly: true,
		about: "List the files of the workspace, or of a directory in it and all below."},
		withoutText(func(ctx context.Context, in listFilesInput) (files.Listing, error) {
			return c.ListBelow(ctx, in.Directory)
		}))
	t := &tasks{server: s, copilot: c, queue: &lanes{most: s.opts.MaxWaiting}}
	add(s, tool{name: ToolCodeTask, title: "Delegate a coding task to Copilot", destructive: true, openWorld: true,
		about: "Let GitHub Copilot's agent do a coding task in the workspace: it reads, edits and creates files, and runs commands that the policy allows. " +
			"Tasks in one directory run one after another. Returns its answer, the tools it used, the files it changed and the tokens it took.",
		bounds: map[string]bounds{"prompt": promptBounds, "timeout": timeBounds}},
		func(ctx context.Context, in codeTaskInput) (string, TaskResult, error) {
			r, err := t.code(ctx, in, (*progress).event)
			return taskText(r), r, err
		})
	add(s, orchestrateTool(), func(ctx context.Context, in orchestrateInput) (string, LargeResult, error) {
		r, err := t.orchestrate(ctx, in)
		return largeText(r), r, err
	})
	return s
}

func orchestrateTool() tool {
	return tool{name: ToolOrchestrate, title: "Delegate a large task to several Copilots", destructive: true, openWorld: true,
		about: "Let GitHub Copilot divide a large coding task into parts and do them in sessions of their own, several at a time. In a git repository each part " +
			"works in its own worktree and their work is put together in the workspace, uncommitted. Returns the plan, how each part ended, the files that were changed and figures.",
		bounds: map[string]bounds{"task": promptBounds, "timeout": timeBounds,
			"maxConcurrency": {least: 1, most: maxConcurrency, otherwise: "3"}}}
}
