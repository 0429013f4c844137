package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The tools of OpenClaw's plugin, besides ToolOrchestrate.
const (
	ToolCode        = "copilot_code"
	ToolCodeVerbose = "copilot_code_verbose"
)

// pluginKey is an experimental capability by which the plugin knows that this
// program is the one it was made for. pluginVersion is the version of the
// contract between the two.
const (
	pluginKey     = "copilot-bridge/openclaw-plugin"
	pluginVersion = 1
)

type codeInput struct {
	Task       string `json:"task" jsonschema:"what to do, with all that Copilot needs to know: files, constraints, how to tell that it is done"`
	WorkingDir string `json:"workingDir,omitempty" jsonschema:"directory to work in, inside the workspace (default: the workspace)"`
	Model      string `json:"model,omitempty" jsonschema:"model to use (default: the configuration's)"`
	Timeout    int64  `json:"timeout,omitempty" jsonschema:"longest time in milliseconds (default: the configuration's)"`
	nested
}

func (in codeInput) task() codeTaskInput {
	return codeTaskInput{Prompt: in.Task, WorkingDir: in.WorkingDir, Model: in.Model, Timeout: in.Timeout, nested: in.nested}
}

// Details is the data of a call that OpenClaw keeps beside its text. OpenClaw
// grades the call by some of the names, so the task's own data is below result.
type Details struct {
	OK     bool   `json:"ok"`
	Status string `json:"status" jsonschema:"ok, partial, failed, denied, invalid, timeout or cancelled"`
	Code   string `json:"code,omitempty" jsonschema:"of the error"`
	Error  string `json:"error,omitempty"`
	Remedy string `json:"remedy,omitempty" jsonschema:"what to do about it"`
	// TimedOut is true for what ran out of time.
	TimedOut bool `json:"timedOut,omitempty"`
	Result   any  `json:"result,omitempty" jsonschema:"what the task came to"`
}

// refused grades an error.
func refused(e *bridge.Error) Details {
	d := Details{Status: "failed", Code: string(e.Code), Error: e.Error(), Remedy: e.Remedy}
	switch e.Code {
	case bridge.CodeDenied:
		d.Status = "denied"
	case bridge.CodeInvalid:
		d.Status = "invalid"
	case bridge.CodeTimeout:
		d.Status, d.TimedOut = "timeout", true
	case bridge.CodeCanceled:
		d.Status = "cancelled"
	default:
	}
	return d
}

// gradeTask grades a task that has ended: one that could do nothing because
// the policy refused all that it tried did not succeed, whatever it says.
func gradeTask(r TaskResult) Details {
	denied, why := 0, ""
	for _, t := range r.ToolCalls {
		if t.Denied {
			denied++
			why = t.Error
		}
	}
	if denied > 0 && denied == len(r.ToolCalls) {
		return Details{Status: "denied", Code: string(bridge.CodeDenied), Error: "everything that the task tried was denied: " + clip(why, 200),
			Remedy: "allow it in a policy, see docs/guides/policy.md", Result: r}
	}
	return Details{OK: true, Status: "ok", Result: r}
}

func gradeLarge(r LargeResult) Details {
	if r.Success {
		return Details{OK: true, Status: "ok", Result: r}
	}
	d := Details{Status: "failed", Error: r.Summary, Remedy: "resume what is left with: copilot-bridge orchestrate --resume " + r.Run, Result: r}
	for _, t := range r.Tasks {
		if t.State == "done" {
			d.Status = "partial"
		}
	}
	return d
}

// NewPlugin serves OpenClaw's plugin, which hands calls on to it. The caller
// must close it, or have Serve do so.
func NewPlugin(c Copilot, opts Options) *Server {
	s := newServer("copilot-bridge-plugin", "GitHub Copilot, for OpenClaw's plugin", "For the plugin copilot-bridge of OpenClaw.", opts,
		map[string]any{pluginKey: map[string]any{"version": pluginVersion}})
	s.graded = true
	t := &tasks{server: s, copilot: c, queue: &lanes{most: s.opts.MaxWaiting}}
	add(s, codeTool(), func(ctx context.Context, in codeInput) (string, Details, error) {
		r, err := t.code(ctx, in.task(), (*progress).event)
		return taskText(r), gradeTask(r), err
	})
	add(s, codeVerboseTool(), func(ctx context.Context, in codeInput) (string, Details, error) {
		log := &steps{}
		r, err := t.code(ctx, in.task(), func(p *progress, ev bridge.Event) {
			if log.add(ev) {
				p.say(log.recent())
			}
		})
		return answer(r) + "\n\n---\nSteps:\n" + log.String() + taskFigures(r), gradeTask(r), err
	})
	add(s, orchestrateTool(), func(ctx context.Context, in orchestrateInput) (string, Details, error) {
		r, err := t.orchestrate(ctx, in)
		return largeText(r), gradeLarge(r), err
	})
	return s
}

func codeTool() tool {
	return tool{name: ToolCode, title: "Copilot: coding task", destructive: true, openWorld: true,
		about: "Delegate a coding task to GitHub Copilot's agent. It works in the workspace: reads, edits and creates files, and runs commands that the policy allows. " +
			"Returns its answer as markdown, with the tools it used, the files it changed and figures. Use it for work on code that takes more than a small edit; it may take minutes.",
		bounds: map[string]bounds{"task": promptBounds, "timeout": timeBounds}}
}

func codeVerboseTool() tool {
	t := codeTool()
	t.name, t.title = ToolCodeVerbose, "Copilot: coding task, step by step"
	t.about = "Like copilot_code, with a numbered log of each step, which is also shown while the task runs. Use it when the user wants to follow what Copilot does."
	return t
}

// PluginTool is a tool as the plugin registers it, before the binary is asked
// for anything.
type PluginTool struct {
	Name        string             `json:"name"`
	Label       string             `json:"label"`
	Description string             `json:"description"`
	Parameters  *jsonschema.Schema `json:"parameters"`
}

// PluginTools are the tools of NewPlugin as a document: extensions/openclaw
// has it as a file, so that the plugin can register them without the binary.
func PluginTools() ([]byte, error) {
	out := struct {
		Version int          `json:"version"`
		Tools   []PluginTool `json:"tools"`
	}{Version: pluginVersion}
	for _, t := range []tool{codeTool(), codeVerboseTool()} {
		out.Tools = append(out.Tools, PluginTool{t.name, t.title, t.about, schemaOf[codeInput](t)})
	}
	t := orchestrateTool()
	out.Tools = append(out.Tools, PluginTool{t.name, t.title, t.about, schemaOf[orchestrateInput](t)})
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("the plugin's tools: %w", err)
	}
	return append(b, '\n'), nil
}
