// Package mcp serves sets of tools to clients of the Model Context Protocol, on
// stdio or over HTTP: Copilot's coding tasks and files, the same tasks for
// OpenClaw's plugin, OpenClaw's memory, and the tool bus's methods. It
// translates and keeps tasks in order. It does not do the work and has no
// policy: both are behind interfaces. internal/app makes the servers.
package mcp

import (
	"context"
	"log/slog"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// Copilot is what the first and the third set of tools stand on. Its methods
// are called concurrently. *workspace.Workspace has the first three.
type Copilot interface {
	Read(ctx context.Context, path string, o files.ReadOptions) (files.Content, error)
	Create(ctx context.Context, path, content string, overwrite bool) (workspace.Created, error)
	ListBelow(ctx context.Context, directory string) (files.Listing, error)
	// Place is the directory that a task would work in, by one name.
	Place(workingDir string) (string, error)
	CodeTask(ctx context.Context, t Task) (TaskResult, error)
	Orchestrate(ctx context.Context, t LargeTask) (LargeResult, error)
}

// Options are common to all sets.
type Options struct {
	Version string
	Logger  *slog.Logger
	// Enter says whether a call at this depth may go on.
	Enter func(depth int) error
	// Depth says how deep a call is by what can be seen of its caller. It is
	// asked before something is started.
	Depth func() int
	// Consent lets clients consent to what needs approval. Without it they
	// are not asked.
	Consent bool
	// Notice, if set, says that the answers are not Copilot's.
	Notice string
	// MaxWaiting is how many tasks may wait for one directory, 32.
	MaxWaiting int
}

// Task is what Copilot is to do.
type Task struct {
	Prompt    string
	Dir       string // as Place returned it
	Model     string
	Worker    string // of the fleet, that is to do it: any, or labels; "" for this machine
	TimeoutMs int64  // 0 for the configuration's
	Depth     int
	Asker     approval.Asker
	Person    bridge.Person // nil if the client cannot put questions
	// Watch hears what happens; it must not be kept waiting.
	Watch func(bridge.Event)
}

// LargeTask is what Copilot is to do in parts.
type LargeTask struct {
	Task        string
	Dir         string // as Place returned it
	Concurrency int    // parts at a time, at most
	Worker      string // as in Task
	TimeoutMs   int64  // 0 for no bound
	Depth       int
	Asker       approval.Asker
	// Watch hears what happens, a line at a time; it must not be kept waiting.
	Watch func(line string)
}

// TaskResult is what a task came to.
type TaskResult struct {
	Text       string    `json:"text" jsonschema:"Copilot's last message"`
	ToolCalls  []ToolUse `json:"toolCalls"`
	Files      []string  `json:"filesChanged" jsonschema:"by tools and by commands; relative to the workspace"`
	Usage      Usage     `json:"usage"`
	Session    string    `json:"sessionId" jsonschema:"continue it with: copilot-bridge run --resume ID"`
	Reason     string    `json:"reason" jsonschema:"how the turn ended"`
	DurationMs int64     `json:"durationMs"`
	Notice     string    `json:"notice,omitempty" jsonschema:"set when the answers are not Copilot's, or when another machine did the work"`

	Answers bridge.Answers `json:"answeredBy" jsonschema:"whose model it was"`
}

// ToolUse is one tool call of a task.
type ToolUse struct {
	Name       string         `json:"name"`
	Arguments  map[string]any `json:"arguments,omitempty" jsonschema:"as the tool got them; what is no object is under input"`
	OK         bool           `json:"ok"`
	Denied     bool           `json:"denied,omitempty" jsonschema:"the policy or a person said no"`
	Error      string         `json:"error,omitempty"`
	DurationMs int64          `json:"durationMs"`
}

// Usage counts tokens.
type Usage struct {
	Model        string `json:"model,omitempty"`
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
}

// LargeResult is what a task in parts came to.
type LargeResult struct {
	Success      bool       `json:"success" jsonschema:"everything was done and put together"`
	Summary      string     `json:"summary"`
	Plan         []Part     `json:"plan"`
	Tasks        []PartDone `json:"tasks" jsonschema:"in the order of the plan"`
	Files        []string   `json:"filesChanged"`
	Usage        Usage      `json:"usage"`
	DurationMs   int64      `json:"durationMs"`
	SequentialMs int64      `json:"sequentialMs" jsonschema:"what the parts would have taken one after another"`
	Speedup      float64    `json:"speedup"`
	CriticalPath []string   `json:"criticalPath" jsonschema:"the chain of parts that took longest"`
	Conflicts    []Conflict `json:"conflicts,omitempty"`
	Branch       string     `json:"branch,omitempty" jsonschema:"where the result is, if it could not be put into the files"`
	KeptBranches []string   `json:"keptBranches,omitempty" jsonschema:"they hold work that is not in the result"`
	Run          string     `json:"runId" jsonschema:"resume what is left with: copilot-bridge orchestrate --resume ID"`
	Notice       string     `json:"notice,omitempty" jsonschema:"set when the answers are not Copilot's"`

	Answers bridge.Answers `json:"answeredBy" jsonschema:"whose model it was"`
}

// Part is a part of a plan.
type Part struct {
	ID          string   `json:"id"`
	Description string   `json:"description"`
	Complexity  string   `json:"complexity" jsonschema:"S, M or L"`
	DependsOn   []string `json:"dependsOn"`
}

// PartDone is how a part ended.
type PartDone struct {
	ID         string   `json:"id"`
	State      string   `json:"state" jsonschema:"done, failed, skipped or canceled"`
	Summary    string   `json:"summary,omitempty"`
	Error      string   `json:"error,omitempty" jsonschema:"why it failed or was skipped"`
	Files      []string `json:"filesChanged"`
	ToolCalls  int      `json:"toolCalls"`
	Denied     int      `json:"denied,omitempty" jsonschema:"tool calls that the policy refused"`
	Usage      Usage    `json:"usage"`
	DurationMs int64    `json:"durationMs"`
	Session    string   `json:"sessionId,omitempty"`
	HeldBack   bool     `json:"heldBack,omitempty" jsonschema:"done, but it did not fit to the rest and is kept on its branch"`
	Branch     string   `json:"branch,omitempty"`
}

// Conflict is two works that changed the same.
type Conflict struct {
	Paths    []string `json:"paths"`
	Resolved bool     `json:"resolved"`
	Message  string   `json:"message,omitempty"`
}
