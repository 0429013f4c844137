package mcp

import (
	"context"
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
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
	Path  string `json:"path" jsonschema:"relative to the workspace"`
	Depth int    `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

type createFileInput struct {
	Path      string `json:"path" jsonschema:"relative to the workspace; directories are made as needed"`
	Content   string `json:"content"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace a file that exists; otherwise that is an error"`
	Depth     int    `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

type listFilesInput struct {
	Directory string `json:"directory,omitempty" jsonschema:"relative to the workspace (default: all of it)"`
	Depth     int    `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

type codeTaskInput struct {
	Prompt     string `json:"prompt" jsonschema:"what to do, with all that Copilot needs to know: files, constraints, how to tell that it is done"`
	WorkingDir string `json:"workingDir,omitempty" jsonschema:"directory to work in, inside the workspace (default: the workspace)"`
	Timeout    int64  `json:"timeout,omitempty" jsonschema:"longest time in milliseconds (default: the configuration's)"`
	Model      string `json:"model,omitempty" jsonschema:"model to use (default: the configuration's)"`
	Depth      int    `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

type orchestrateInput struct {
	Task           string `json:"task" jsonschema:"what to do as a whole, with all that Copilot needs to know to divide it into parts"`
	MaxConcurrency int    `json:"maxConcurrency,omitempty" jsonschema:"most parts at a time (default 3)"`
	Timeout        int64  `json:"timeout,omitempty" jsonschema:"longest time for the whole in milliseconds; what is done by then is kept (default: none)"`
	Depth          int    `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

const (
	maxPrompt          = 1 << 20
	maxTimeout         = 24 * 3600 * 1000.0
	defaultConcurrency = 3
	maxConcurrency     = 16
)

// NewCopilot serves Copilot's tools. Nothing is started before it is needed.
// The caller must close it, or have Serve do so.
func NewCopilot(c Copilot, opts Options) *Server {
	s := newServer("copilot-bridge", "GitHub Copilot",
		"GitHub Copilot's coding agent in a workspace, under the user's policy. Delegate a coding task with copilot_code_task; "+
			"it may take minutes and reports progress. A large one is divided into parts by copilot_orchestrate. The other tools read, create and list files without a model.", opts, nil)
	text := func(p *jsonschema.Schema) { p.MinLength = jsonschema.Ptr(1) }
	add(s, tool{name: ToolReadFile, title: "Read a file", readOnly: true,
		about:  "Read a file of the workspace. Secrets in it are hidden.",
		limits: map[string]func(*jsonschema.Schema){"path": text}},
		func(in readFileInput) int { return in.Depth },
		func(ctx context.Context, req *sdk.CallToolRequest, in readFileInput) (*sdk.CallToolResult, File, error) {
			f, err := c.ReadFile(s.withAsker(ctx, req), in.Path)
			return nil, f, err
		})
	add(s, tool{name: ToolCreateFile, title: "Create a file", destructive: true,
		about:  "Create a file in the workspace, or replace one if overwrite is set.",
		limits: map[string]func(*jsonschema.Schema){"path": text}},
		func(in createFileInput) int { return in.Depth },
		func(ctx context.Context, req *sdk.CallToolRequest, in createFileInput) (*sdk.CallToolResult, Created, error) {
			f, err := c.CreateFile(s.withAsker(ctx, req), in.Path, in.Content, in.Overwrite)
			return nil, f, err
		})
	add(s, tool{name: ToolListFiles, title: "List files", readOnly: true,
		about: "List the files of the workspace, or of a directory in it and all below."},
		func(in listFilesInput) int { return in.Depth },
		func(ctx context.Context, req *sdk.CallToolRequest, in listFilesInput) (*sdk.CallToolResult, Files, error) {
			f, err := c.ListFiles(s.withAsker(ctx, req), in.Directory)
			return nil, f, err
		})
	t := &tasks{server: s, copilot: c, queue: &lanes{most: s.opts.MaxWaiting}}
	add(s, tool{name: ToolCodeTask, title: "Delegate a coding task to Copilot", destructive: true, openWorld: true,
		about: "Let GitHub Copilot's agent do a coding task in the workspace: it reads, edits and creates files, and runs commands that the policy allows. " +
			"Tasks in one directory run one after another. Returns its answer, the tools it used, the files it changed and the tokens it took.",
		limits: map[string]func(*jsonschema.Schema){"prompt": prompt, "timeout": timeout}},
		func(in codeTaskInput) int { return in.Depth },
		func(ctx context.Context, req *sdk.CallToolRequest, in codeTaskInput) (*sdk.CallToolResult, TaskResult, error) {
			r, err := t.code(ctx, req, in, (*progress).event)
			return markdown(taskText(r)), r, err
		})
	add(s, orchestrateTool(), func(in orchestrateInput) int { return in.Depth },
		func(ctx context.Context, req *sdk.CallToolRequest, in orchestrateInput) (*sdk.CallToolResult, LargeResult, error) {
			r, err := t.orchestrate(ctx, req, in)
			return markdown(largeText(r)), r, err
		})
	return s
}

func prompt(p *jsonschema.Schema) {
	p.MinLength, p.MaxLength = jsonschema.Ptr(1), jsonschema.Ptr(maxPrompt)
}

func timeout(p *jsonschema.Schema) {
	p.Minimum, p.Maximum = jsonschema.Ptr(0.0), jsonschema.Ptr(maxTimeout)
}

func orchestrateTool() tool {
	return tool{name: ToolOrchestrate, title: "Delegate a large task to several Copilots", destructive: true, openWorld: true,
		about: "Let GitHub Copilot divide a large coding task into parts and do them in sessions of their own, several at a time. In a git repository each part " +
			"works in its own worktree and their work is put together in the workspace, uncommitted. Returns the plan, how each part ended, the files that were changed and figures.",
		limits: map[string]func(*jsonschema.Schema){"task": prompt, "timeout": timeout,
			"maxConcurrency": func(p *jsonschema.Schema) {
				p.Minimum, p.Maximum, p.Default = jsonschema.Ptr(1.0), jsonschema.Ptr(float64(maxConcurrency)), json.RawMessage("3")
			}}}
}
