package task

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

const tasksFile = ".vscode/tasks.json"

// discoverVSCode reads .vscode/tasks.json, version 2.0.0. A task that needs
// what only an editor has (an open file, an answer to a question, a problem
// matcher's background state) is listed with the reason why it cannot be run.
func discoverVSCode(w source, vars variables) ([]Task, error) {
	b, ok, err := w.read(tasksFile)
	if err != nil || !ok {
		return nil, err
	}
	file, err := parseTasks(b)
	if err != nil {
		return nil, &bridge.Error{
			Code: bridge.CodeInvalid, Message: tasksFile + " cannot be read", Remedy: "Correct " + tasksFile + ".", Cause: err,
		}
	}
	var tasks []Task
	for _, def := range file.Tasks {
		tasks = append(tasks, runnable(file.task(w.root, def, vars)))
	}
	return tasks, nil
}

// taskBlock is what a task, a whole file and a block for one system may all
// say.
type taskBlock struct {
	Type    string       `json:"type"`
	Command any          `json:"command"` // a string, a list of them, or {value, quoting}
	Args    []any        `json:"args"`
	Options *taskOptions `json:"options"`
}

type taskOptions struct {
	Cwd   string            `json:"cwd"`
	Env   map[string]string `json:"env"`
	Shell *struct {
		Executable string   `json:"executable"`
		Args       []string `json:"args"`
	} `json:"shell"`
}

type systems struct {
	Windows *taskBlock `json:"windows"`
	OSX     *taskBlock `json:"osx"`
	Linux   *taskBlock `json:"linux"`
}

type taskDef struct {
	taskBlock
	systems
	Label        string `json:"label"`
	TaskName     string `json:"taskName"` // label's old name
	Script       string `json:"script"`   // of type npm
	Path         string `json:"path"`     // of type npm
	Detail       string `json:"detail"`
	Group        any    `json:"group"` // a string or {kind, isDefault}
	DependsOn    any    `json:"dependsOn"`
	IsBackground bool   `json:"isBackground"`

	wrong error // why it could not be read
}

type tasksJSON struct {
	taskBlock
	systems
	Version string            `json:"version"`
	Raw     []json.RawMessage `json:"tasks"`
	Tasks   []taskDef         `json:"-"`
}

// parseTasks reads JSON with comments and trailing commas.
func parseTasks(b []byte) (tasksJSON, error) {
	var file tasksJSON
	std, err := hujson.Standardize(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	if err != nil {
		return file, err
	}
	if err := json.Unmarshal(std, &file); err != nil {
		return file, err
	}
	for i, raw := range file.Raw {
		var def taskDef
		if err := json.Unmarshal(raw, &def); err != nil {
			// One bad task must not hide the others.
			def = taskDef{Label: labelOf(raw), wrong: err}
			if def.Label == "" {
				def.Label = fmt.Sprintf("task %d", i+1)
			}
		}
		file.Tasks = append(file.Tasks, def)
	}
	return file, nil
}

func labelOf(raw json.RawMessage) string {
	var def struct {
		Label any `json:"label"`
	}
	if json.Unmarshal(raw, &def) != nil {
		return ""
	}
	label, _ := def.Label.(string)
	return label
}

func (s systems) current() *taskBlock {
	switch runtime.GOOS {
	case "windows":
		return s.Windows
	case "darwin":
		return s.OSX
	default:
		return s.Linux
	}
}

// over lays what b says over base. Environments unite; the rest replaces.
func (b *taskBlock) over(base taskBlock) taskBlock {
	if b == nil {
		return base
	}
	base.Type = cmp.Or(b.Type, base.Type)
	if b.Command != nil {
		base.Command = b.Command
	}
	if b.Args != nil {
		base.Args = b.Args
	}
	if b.Options != nil {
		merged := taskOptions{}
		if base.Options != nil {
			merged = *base.Options
		}
		merged.Cwd = cmp.Or(b.Options.Cwd, merged.Cwd)
		merged.Shell = cmp.Or(b.Options.Shell, merged.Shell)
		env := map[string]string{}
		maps.Copy(env, merged.Env)
		maps.Copy(env, b.Options.Env)
		merged.Env = env
		base.Options = &merged
	}
	return base
}

func (f tasksJSON) task(root *os.Root, def taskDef, vars variables) Task {
	t := Task{Label: cmp.Or(def.Label, def.TaskName), Source: SourceVSCode, Detail: def.Detail, Group: groupOf(def.Group)}
	// A file may set defaults for all of its tasks, but a command there
	// belongs to the format of long ago.
	defaults := f.current().over(f.taskBlock)
	defaults.Command, defaults.Args = nil, nil
	block := def.current().over(def.over(defaults))
	if t.Label == "" {
		t.Label = unnamed(def, block)
	}
	t.DependsOn, t.Reason = dependencies(def.DependsOn)
	switch {
	case t.Reason != "":
	case def.wrong != nil:
		t.Reason = "it is not written as VS Code expects: " + def.wrong.Error()
	case f.Version != "" && f.Version != "2.0.0":
		t.Reason = fmt.Sprintf("version %q of tasks.json is not supported, only 2.0.0", f.Version)
	case def.IsBackground:
		t.Reason = "it runs in the background and has no end"
	default:
		t.Reason = fill(&t, root, def, block, vars)
	}
	if t.Reason != "" {
		t.Command, t.Shell = nil, ""
	}
	return t
}

func unnamed(def taskDef, block taskBlock) string {
	if def.Script != "" {
		return "npm: " + def.Script
	}
	if s, ok := block.Command.(string); ok && s != "" {
		return s
	}
	return "unnamed"
}

// fill sets the command and its directory. It returns why that cannot be done.
func fill(t *Task, root *os.Root, def taskDef, block taskBlock, vars variables) (reason string) {
	opts := taskOptions{}
	if block.Options != nil {
		opts = *block.Options
	}
	cwd := opts.Cwd
	if block.Type == "npm" && def.Path != "" {
		cwd = def.Path
	}
	cwd, reason = vars.expand(cwd)
	if reason != "" {
		return reason
	}
	if t.Dir, reason = vars.relative(cwd); reason != "" {
		return reason
	}
	for k, v := range opts.Env {
		if v, reason = vars.expand(v); reason != "" {
			return reason
		}
		if strings.ContainsAny(k, "=\x00") || k == "" || strings.ContainsRune(v, 0) {
			return fmt.Sprintf("%q is no name for an environment variable", k)
		}
		if t.Env == nil {
			t.Env = map[string]string{}
		}
		t.Env[k] = v
	}
	switch block.Type {
	case "npm":
		t.Command, reason = npmTask(root, t.Dir, def.Script)
		if t.Detail == "" {
			t.Detail = def.Script
		}
		return reason
	case "shell", "process", "":
	default:
		return fmt.Sprintf("its type %q belongs to an extension of VS Code", block.Type)
	}
	if block.Command == nil {
		return "" // it stands for its dependencies; runnable refuses if there are none
	}
	command, reason := words([]any{block.Command}, vars)
	if reason != "" {
		return reason
	}
	args, reason := words(block.Args, vars)
	if reason != "" {
		return reason
	}
	if len(command) == 0 || strings.TrimSpace(command[0].text) == "" {
		return "its command is empty"
	}
	if block.Type != "shell" {
		for _, w := range append(command, args...) {
			t.Command = append(t.Command, w.text)
		}
		return ""
	}
	line := shellLine(command[0], args)
	if opts.Shell == nil || opts.Shell.Executable == "" {
		t.Shell = line
		return ""
	}
	executable, reason := vars.expand(opts.Shell.Executable)
	if reason != "" {
		return reason
	}
	shellArgs := opts.Shell.Args
	if len(shellArgs) == 0 {
		shellArgs = []string{"-c"}
	}
	t.Command = append(append([]string{executable}, shellArgs...), line)
	return ""
}

// dependencies are a label, or a list of them. Other forms name tasks of
// extensions.
func dependencies(v any) (labels []string, reason string) {
	const foreign = "it depends on a task of an extension of VS Code"
	switch v := v.(type) {
	case nil:
		return nil, ""
	case string:
		return []string{v}, ""
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, foreign
			}
			labels = append(labels, s)
		}
		return labels, ""
	default:
		return nil, foreign
	}
}

func groupOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		s, _ := v["kind"].(string)
		return s
	default:
		return ""
	}
}

// variables are what ${…} in tasks.json can mean outside an editor.
type variables struct {
	dir string // absolute
	env []string
}

// expand replaces the variables in s, or says which one it cannot.
func (v variables) expand(s string) (expanded, reason string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		b.WriteString(before)
		if !found {
			return b.String(), ""
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString("${" + rest)
			return b.String(), ""
		}
		value, ok := v.value(name)
		if !ok {
			return "", fmt.Sprintf("the variable ${%s} has no value outside an editor", name)
		}
		b.WriteString(value)
		s = after
	}
}

func (v variables) value(name string) (string, bool) {
	if variable, ok := strings.CutPrefix(name, "env:"); ok {
		return program.Variable(v.env, variable), true // a missing one is empty, as in VS Code
	}
	switch name {
	case "workspaceFolder", "workspaceRoot", "cwd", "workspaceFolder:" + filepath.Base(v.dir):
		return v.dir, true
	case "workspaceFolderBasename", "workspaceRootFolderName":
		return filepath.Base(v.dir), true
	case "pathSeparator", "/":
		return string(filepath.Separator), true
	case "userHome":
		home := program.Variable(v.env, "HOME")
		if runtime.GOOS == "windows" {
			home = program.Variable(v.env, "USERPROFILE")
		}
		return home, home != ""
	default:
		return "", false
	}
}

// relative turns a directory of a task into one relative to the workspace,
// which it must not leave.
func (v variables) relative(dir string) (rel, reason string) {
	if dir == "" {
		return "", ""
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(v.dir, filepath.FromSlash(dir))
	}
	rel, err := filepath.Rel(v.dir, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Sprintf("its directory %q is outside the workspace", dir)
	}
	if rel = path.Clean(filepath.ToSlash(rel)); rel == "." {
		rel = ""
	}
	return rel, ""
}
