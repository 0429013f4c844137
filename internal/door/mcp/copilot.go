package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools of Copilot.
const (
	ToolReadFile   = "copilot_read_file"
	ToolCreateFile = "copilot_create_file"
	ToolListFiles  = "copilot_list_files"
	ToolCodeTask   = "copilot_code_task"
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

const maxPrompt = 1 << 20

// NewCopilot serves Copilot's tools. Nothing is started before it is needed.
// The caller must close it, or have Serve do so.
func NewCopilot(c Copilot, opts Options) *Server {
	s := newServer("copilot-bridge", "GitHub Copilot",
		"GitHub Copilot's coding agent in a workspace, under the user's policy. Delegate a coding task with copilot_code_task; "+
			"it may take minutes and reports progress. The other tools read, create and list files without a model.", opts)
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
	queue := &lanes{most: s.opts.MaxWaiting}
	add(s, tool{name: ToolCodeTask, title: "Delegate a coding task to Copilot", destructive: true, openWorld: true,
		about: "Let GitHub Copilot's agent do a coding task in the workspace: it reads, edits and creates files, and runs commands that the policy allows. " +
			"Tasks in one directory run one after another. Returns its answer, the tools it used, the files it changed and the tokens it took.",
		limits: map[string]func(*jsonschema.Schema){
			"prompt":  func(p *jsonschema.Schema) { p.MinLength, p.MaxLength = jsonschema.Ptr(1), jsonschema.Ptr(maxPrompt) },
			"timeout": func(p *jsonschema.Schema) { p.Minimum, p.Maximum = jsonschema.Ptr(0.0), jsonschema.Ptr(24*3600*1000.0) },
		}},
		func(in codeTaskInput) int { return in.Depth },
		func(ctx context.Context, req *sdk.CallToolRequest, in codeTaskInput) (*sdk.CallToolResult, TaskResult, error) {
			r, err := s.codeTask(ctx, req, c, queue, in)
			if err != nil {
				return nil, TaskResult{}, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: summary(r)}}}, r, nil
		})
	return s
}

func (s *Server) codeTask(ctx context.Context, req *sdk.CallToolRequest, c Copilot, queue *lanes, in codeTaskInput) (TaskResult, error) {
	dir, err := c.Place(in.WorkingDir)
	if err != nil {
		return TaskResult{}, err
	}
	p := s.progress(ctx, req)
	defer p.stop()
	leave, err := queue.enter(ctx, dir, func(ahead int) { p.say(fmt.Sprintf("waiting: %d ahead in this directory", ahead)) })
	if err != nil {
		return TaskResult{}, err
	}
	defer leave()
	p.say("starting Copilot")
	return c.CodeTask(ctx, Task{Prompt: in.Prompt, Dir: dir, Model: in.Model, TimeoutMs: in.Timeout, Depth: in.Depth, Asker: s.asker(ctx, req), Watch: p.event})
}

// summary is a result for those who read text.
func summary(r TaskResult) string {
	var b strings.Builder
	if r.Notice != "" {
		b.WriteString("> " + r.Notice + "\n\n")
	}
	b.WriteString(strings.TrimSpace(r.Text))
	b.WriteString("\n\n---\n")
	if len(r.Files) > 0 {
		b.WriteString("Files changed: " + strings.Join(r.Files, ", ") + "\n")
	}
	if len(r.ToolCalls) > 0 {
		b.WriteString("Tools used:")
		for i, t := range r.ToolCalls {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(" " + t.Name)
			if !t.OK {
				b.WriteString(" (failed: " + clip(t.Error, 200) + ")")
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "Session %s: %.1f s, %d tokens in, %d out\n", r.Session, float64(r.DurationMs)/1000, r.Usage.InputTokens, r.Usage.OutputTokens)
	return b.String()
}
