package workspace

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// RunOptions bound a command and hear of its output.
type RunOptions struct {
	Timeout time.Duration
	Args    []string // further arguments of a task's command
	// OnOutput gets the output as it comes, stream by stream.
	OnOutput func(stream, text string)
}

// Tasks lists what the workspace knows how to run, without secrets. A file
// that cannot be understood is an error along with the tasks of the others.
func (w *Workspace) Tasks(ctx context.Context) ([]task.Task, error) {
	tasks, err := w.discover(ctx)
	type variable struct {
		task       int
		name, text string
	}
	var variables []*variable
	var texts []*string
	for i := range tasks {
		t := &tasks[i]
		texts = append(texts, &t.Name, &t.Label, &t.Detail, &t.Group, &t.Shell, &t.Dir, &t.Reason)
		for j := range t.Command {
			texts = append(texts, &t.Command[j])
		}
		for j := range t.DependsOn {
			texts = append(texts, &t.DependsOn[j])
		}
		// A value by itself does not look like a secret; its name tells.
		for name, value := range t.Env {
			set := &variable{task: i, name: name, text: name + "=" + value}
			texts, variables = append(texts, &set.text), append(variables, set)
		}
	}
	if _, hideErr := w.opts.Guard.Reveal(ctx, bridge.ToolCall{Name: ToolTasks}, texts...); hideErr != nil {
		return nil, hideErr
	}
	for _, v := range variables {
		tasks[v.task].Env[v.name] = strings.TrimPrefix(v.text, v.name+"=")
	}
	return tasks, err
}

// discover finds the tasks in files that may be read.
func (w *Workspace) discover(ctx context.Context) ([]task.Task, error) {
	if err := w.opts.Guard.Usable(); err != nil {
		return nil, err
	}
	return task.Discover(ctx, w.root, task.Options{Declared: w.opts.Tasks, Env: w.opts.Env, MayRead: w.opts.Guard.MayRead})
}

// RunTask runs a task by its name, and those it depends on before it.
func (w *Workspace) RunTask(ctx context.Context, name string, o RunOptions) (task.Result, error) {
	tasks, err := w.discover(ctx)
	if err != nil && len(tasks) == 0 {
		return task.Result{}, err
	}
	plan, err := task.Plan(tasks, name)
	if err != nil {
		return task.Result{}, err
	}
	var last task.Result
	for i, t := range plan {
		var more []string
		if i == len(plan)-1 { // those it depends on get none
			more = o.Args
		}
		c, err := t.Program(w.dir, w.opts.Env, more...)
		if last, err = w.run(ctx, ToolTask, map[string]any{"name": t.Name}, c, err, o); err != nil || last.ExitCode != 0 {
			return last, err
		}
	}
	return last, nil
}

// Shell runs a line of bash.
func (w *Workspace) Shell(ctx context.Context, command string, o RunOptions) (task.Result, error) {
	if strings.TrimSpace(command) == "" {
		return task.Result{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "the command is empty"}
	}
	c, err := program.Shell(program.Place{Root: w.dir, Env: w.opts.Env}, command)
	return w.run(ctx, ToolShell, map[string]any{}, c, err, o)
}

// run runs a command under the guard, which sees all of it: the line with its
// directory and variables, and the program itself. Its output is masked as it comes and again
// as a whole, since a secret may be spread over two pieces. made is why there
// is no such command.
func (w *Workspace) run(ctx context.Context, tool string, args map[string]any, c program.Command, made error, o RunOptions) (task.Result, error) {
	if made != nil {
		w.opts.Guard.Failed(ctx, bridge.ToolCall{Name: tool, Args: args}, made.Error())
		return task.Result{}, made
	}
	args["command"], args["program"] = c.Line(), c.Path
	spec := task.Spec{Program: c, Timeout: o.Timeout, Trees: w.opts.Trees}
	call := bridge.ToolCall{Name: tool, Args: args, Confined: w.Confined()}
	return guard.Do(ctx, w.opts.Guard, call, denied(tool), func(d bridge.Decision) (task.Result, error) {
		if o.OnOutput != nil {
			streams := map[string]bridge.TextMask{"stdout": w.opts.Guard.Stream(), "stderr": w.opts.Guard.Stream()}
			spec.OnOutput = func(stream string, text []byte) {
				if safe := streams[stream].Write(string(text)); safe != "" {
					o.OnOutput(stream, safe)
				}
			}
			defer func() {
				for _, name := range []string{"stdout", "stderr"} {
					if rest := streams[name].Flush(); rest != "" {
						o.OnOutput(name, rest)
					}
				}
			}()
		}
		return w.confined(ctx, spec, d)
	}, func(r *task.Result) []*string { return []*string{&r.Stdout, &r.Stderr} })
}

// confined runs a command in the sandbox, if there is one. What it has made
// that would configure something is taken away, unless a person has agreed to
// the command, and its error output says so.
func (w *Workspace) confined(ctx context.Context, spec task.Spec, d bridge.Decision) (r task.Result, err error) {
	if !w.Confined() {
		return task.Run(ctx, spec)
	}
	if spec.Program, err = w.opts.Sandbox.Wrap(ctx, spec.Program, d.Grant); err != nil {
		return task.Result{}, err
	}
	if d.Consented {
		return task.Run(ctx, spec)
	}
	end := w.opts.Sandbox.Watch()
	r, err = task.Run(ctx, spec)
	notice, failed := end()
	if notice != "" {
		r.Stderr += "\n" + notice + "\n"
	}
	return r, errors.Join(err, failed)
}
