package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// Where a task comes from; also the first part of its name, except for
// declared ones.
const (
	SourceDeclared = "declared"
	SourceVSCode   = "vscode"
	SourceMake     = "make"
	SourceNPM      = "npm" // package.json, whichever program runs its scripts
)

const (
	maxFile  = 1 << 20 // of a file that declares tasks
	maxTasks = 2000    // of all sources
)

// Task is one thing that the workspace knows how to run. Either Command or
// Shell is set, unless the task only stands for those it depends on.
type Task struct {
	Name   string `json:"name"`  // unique: make:test, npm:build, vscode:Build all, or a declared name
	Label  string `json:"label"` // the name as its file has it
	Source string `json:"source"`
	Detail string `json:"detail,omitempty"`
	Group  string `json:"group,omitempty"` // build, test, …, as VS Code has it

	Command []string          `json:"command,omitempty"` // program and arguments, without a shell
	Shell   string            `json:"shell,omitempty"`   // a line for bash
	Dir     string            `json:"dir,omitempty"`     // slash-separated, relative to the root; empty is the root
	Env     map[string]string `json:"env,omitempty"`     // on top of what the caller gives every command

	DependsOn []string `json:"dependsOn,omitempty"` // labels of tasks of the same source
	Runnable  bool     `json:"runnable"`
	Reason    string   `json:"reason,omitempty"` // why it is not
}

// Options are what Discover needs beyond the workspace itself.
type Options struct {
	Declared map[string]string // name → shell line, from the bridge's own configuration
	Env      []string          // what ${env:NAME} may refer to
	// MayRead says whether a file of the workspace may be read; one that may
	// not declares no tasks. nil: all may.
	MayRead func(path string) bool
}

// Discover lists the tasks of a workspace: declared ones first, then those of
// .vscode/tasks.json, the Makefile and package.json, each in its own order.
// When a file cannot be understood the tasks of the others are returned
// along with the error.
func Discover(ctx context.Context, root *os.Root, opts Options) ([]Task, error) {
	dir, err := filepath.Abs(root.Name())
	if err != nil {
		return nil, fmt.Errorf("workspace directory: %w", err)
	}
	w := source{root: root, mayRead: opts.MayRead}
	var found []Task
	for _, name := range slices.Sorted(maps.Keys(opts.Declared)) {
		found = append(found, runnable(Task{Name: name, Label: name, Source: SourceDeclared, Shell: opts.Declared[name]}))
	}
	var errs []error
	add := func(tasks []Task, err error) {
		found = append(found, tasks...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, discover := range []func() ([]Task, error){
		func() ([]Task, error) { return discoverVSCode(w, variables{dir: dir, env: opts.Env}) },
		func() ([]Task, error) { return discoverMake(w) },
		func() ([]Task, error) { return discoverNPM(w) },
	} {
		if err := ctx.Err(); err != nil {
			return nil, canceled(err)
		}
		add(discover())
	}
	if len(found) > maxTasks {
		found = found[:maxTasks]
	}
	name(found)
	return found, errors.Join(errs...)
}

// runnable marks a task as such, or says why it is not.
func runnable(t Task) Task {
	if t.Reason == "" && t.Shell == "" && len(t.Command) == 0 && len(t.DependsOn) == 0 {
		t.Reason = "it has no command"
	}
	t.Runnable = t.Reason == ""
	return t
}

// name gives every task a unique name. Declared tasks keep theirs.
func name(tasks []Task) {
	taken := map[string]bool{}
	for i := range tasks {
		t := &tasks[i]
		if t.Name == "" {
			t.Name = t.Source + ":" + t.Label
		}
		base := t.Name
		for n := 2; taken[t.Name]; n++ {
			t.Name = fmt.Sprintf("%s (%d)", base, n)
		}
		taken[t.Name] = true
	}
}

// Find returns the task of that name; a label alone will do if only one task
// has it.
func Find(tasks []Task, name string) (Task, error) {
	var labelled []Task
	for _, t := range tasks {
		if t.Name == name {
			return t, nil
		}
		if t.Label == name {
			labelled = append(labelled, t)
		}
	}
	switch len(labelled) {
	case 1:
		return labelled[0], nil
	case 0:
		return Task{}, &bridge.Error{
			Code: bridge.CodeNotFound, Message: fmt.Sprintf("there is no task %q", name),
			Remedy: "The tasks here are: " + names(tasks) + ".",
		}
	default:
		return Task{}, &bridge.Error{
			Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q could be several tasks", name),
			Remedy: "Name one of: " + names(labelled) + ".",
		}
	}
}

func names(tasks []Task) string {
	const most = 30
	var all []string
	for _, t := range tasks {
		all = append(all, t.Name)
	}
	switch {
	case len(all) == 0:
		return "none"
	case len(all) > most:
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}

// Plan returns the tasks to run, in order, for the named task: those it
// depends on before it, each once. Dependencies that could run side by side
// come one after the other.
func Plan(tasks []Task, name string) ([]Task, error) {
	goal, err := Find(tasks, name)
	if err != nil {
		return nil, err
	}
	var plan []Task
	state := map[string]int{} // 1: being visited, 2: in the plan
	var visit func(t Task) error
	visit = func(t Task) error {
		switch {
		case state[t.Name] == 2:
			return nil
		case state[t.Name] == 1:
			return invalid(fmt.Sprintf("task %q depends on itself", t.Name), "Break the circle of dependsOn in .vscode/tasks.json.")
		case !t.Runnable:
			return &bridge.Error{
				Code: bridge.CodeUnsupported, Message: fmt.Sprintf("task %q cannot be run: %s", t.Name, t.Reason),
				Remedy: "Run what it stands for as a command, or declare it as a task of the bridge.",
			}
		}
		state[t.Name] = 1
		for _, label := range t.DependsOn {
			i := slices.IndexFunc(tasks, func(o Task) bool { return o.Source == t.Source && o.Label == label })
			if i < 0 {
				return &bridge.Error{
					Code: bridge.CodeNotFound, Message: fmt.Sprintf("task %q depends on %q, which there is not", t.Name, label),
					Remedy: "Correct dependsOn in .vscode/tasks.json.",
				}
			}
			if err := visit(tasks[i]); err != nil {
				return err
			}
		}
		state[t.Name] = 2
		if t.Shell != "" || len(t.Command) > 0 {
			plan = append(plan, t)
		}
		return nil
	}
	if err := visit(goal); err != nil {
		return nil, err
	}
	return plan, nil
}

// Program is the task as a command in the workspace dir, with env as the
// user's environment. args are further arguments.
func (t Task) Program(dir string, env []string, args ...string) (program.Command, error) {
	p := program.Place{Root: dir, Dir: t.Dir, Env: env}
	for _, k := range slices.Sorted(maps.Keys(t.Env)) {
		p.Set = append(p.Set, k+"="+t.Env[k])
	}
	if t.Shell == "" && len(t.Command) > 0 {
		return program.New(p, t.Command[0], slices.Concat(t.Command[1:], args)...)
	}
	line := t.Shell
	for _, a := range args {
		line += " " + singleQuoted(a)
	}
	return program.Shell(p, line)
}

// source is the workspace that tasks are looked for in.
type source struct {
	root    *os.Root
	mayRead func(string) bool
}

// read returns the contents of a file that may not be there. A file that is no
// plain file, such as a pipe that would block, counts as not there; so does
// what may not be read.
func (w source) read(path string) (content []byte, ok bool, err error) {
	if w.mayRead != nil && !w.mayRead(path) {
		return nil, false, nil
	}
	content, err = files.ReadAll(w.root, path, maxFile+1)
	switch {
	case bridge.CodeOf(err) == bridge.CodeNotFound, errors.Is(err, files.ErrNotRegular):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case len(content) > maxFile:
		return nil, false, invalid(fmt.Sprintf("%s is over %d bytes, too long to look for tasks in", path, maxFile), "Make the file shorter.")
	}
	return content, true, nil
}
