package workspace

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// RunOptions bound a command and hear of its output.
type RunOptions struct {
	Timeout time.Duration
	Args    []string // further arguments of a task's command
	// OnOutput gets the output as it comes, stream by stream.
	OnOutput func(stream, text string)
}

// Tasks lists what the workspace knows how to run. A file that cannot be
// understood is an error along with the tasks of the others.
func (w *Workspace) Tasks(ctx context.Context) ([]task.Task, error) {
	return task.Discover(ctx, w.root, task.Options{Declared: w.opts.Tasks, Env: w.opts.Env})
}

// RunTask runs a task by its name, and those it depends on before it.
func (w *Workspace) RunTask(ctx context.Context, name string, o RunOptions) (task.Result, error) {
	tasks, err := w.Tasks(ctx)
	if err != nil && len(tasks) == 0 {
		return task.Result{}, err
	}
	plan, err := task.Plan(tasks, name)
	if err != nil {
		return task.Result{}, err
	}
	var last task.Result
	for i, t := range plan {
		spec := t.Spec(w.dir, w.opts.Env)
		if i == len(plan)-1 && len(o.Args) > 0 { // those it depends on get none
			spec = withArgs(spec, o.Args)
		}
		args := map[string]any{"name": t.Name, "command": commandLine(spec)}
		if t.Dir != "" {
			args["dir"] = t.Dir
		}
		if last, err = w.run(ctx, ToolTask, args, spec, o); err != nil || last.ExitCode != 0 {
			return last, err
		}
	}
	return last, nil
}

// Shell runs a line of the shell.
func (w *Workspace) Shell(ctx context.Context, command string, o RunOptions) (task.Result, error) {
	if strings.TrimSpace(command) == "" {
		return task.Result{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "the command is empty"}
	}
	return w.run(ctx, ToolShell, map[string]any{"command": command}, task.Spec{Dir: w.dir, Shell: command, Env: w.opts.Env}, o)
}

// run runs a command under the guard. Its output is masked as it comes and
// again as a whole, since a secret may be spread over two pieces.
func (w *Workspace) run(ctx context.Context, tool string, args map[string]any, spec task.Spec, o RunOptions) (task.Result, error) {
	spec.Timeout, spec.Trees = o.Timeout, w.opts.Trees
	r, _, err := guarded(ctx, w, tool, args, func() (task.Result, error) {
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
		return task.Run(ctx, spec)
	}, func(r *task.Result) []*string { return []*string{&r.Stdout, &r.Stderr} })
	return r, err
}

// withArgs adds arguments to a command.
func withArgs(s task.Spec, args []string) task.Spec {
	if s.Shell != "" {
		s.Shell += " " + quoted(args)
		return s
	}
	s.Command = append(slices.Clone(s.Command), args...)
	return s
}

// commandLine is a command as a shell would be told it, for the guard to take
// apart.
func commandLine(s task.Spec) string {
	if s.Shell != "" {
		return s.Shell
	}
	return quoted(s.Command)
}

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}
