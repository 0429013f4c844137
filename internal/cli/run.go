package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// runOptions are the flags and arguments of run.
type runOptions struct {
	talkOptions
	task    string
	attach  []string
	model   string
	effort  string
	timeout string
}

func (p *program) runCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   `run "TASK"`,
		Short: "Let Copilot do a task in a directory",
		Long: `Let Copilot do a task in a directory, and watch it.

TASK is what to do, or "-" to read it from standard input. Copilot may read and
write inside the working directory; commands and the network need your consent,
for which you are asked if you are at a terminal. Elsewhere they are denied
unless --yes is given.

The assistant's words go to standard output and everything else (tools, notices,
the summary) to standard error, so that "run … > answer.txt" writes the answer
alone. With --json standard output carries one event a line and, last, a line
of type "result".

Ctrl-C ends the turn; a second one ends the program at once.

` + exitHelp,
		Example: `  copilot-bridge run "create hello.txt saying hi"
  copilot-bridge run "fix the failing test" --cwd ~/src/app --timeout 20m
  copilot-bridge run - --model gpt-5 < task.md
  copilot-bridge run "list the files" --json | jq -r 'select(.type=="result").text'
  copilot-bridge run "and now in French" --resume 41bd9d7b`,
		Args: takes(cobra.ExactArgs(1), "one task in quotes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.task = args[0]
			return p.runRun(cmd, o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVarP(&o.dir, "cwd", "C", "", "work in this `DIR` (default: the present one, or the session's)")
	f.StringVarP(&o.model, "model", "m", "", "`MODEL` to use")
	f.StringVar(&o.effort, "reasoning-effort", "", "`HOW` much the model should think: "+strings.Join(settingValues("reasoning_effort"), ", "))
	f.StringVar(&o.timeout, "timeout", "", "longest `TIME` the task may take, such as 90s or 20m")
	f.StringVar(&o.resume, "resume", "", "go on with the session `ID`")
	f.StringArrayVar(&o.attach, "attach", nil, "`FILE` or directory to send along; may be repeated")
	f.BoolVar(&o.json, "json", false, "write events and the result as JSON lines")
	f.BoolVarP(&o.yes, "yes", "y", false, "consent to everything that would be asked")
	f.BoolVar(&o.demo, "demo", false, "let the built-in rehearsal model answer")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show thoughts, sub-agents and the runtime's own events")
	p.must(cmd.RegisterFlagCompletionFunc("resume", p.completeSessions))
	p.must(cmd.RegisterFlagCompletionFunc("model", cobra.NoFileCompletions))
	p.must(cmd.RegisterFlagCompletionFunc("timeout", cobra.NoFileCompletions))
	p.must(cmd.RegisterFlagCompletionFunc("reasoning-effort", fixedCompletions(settingValues("reasoning_effort"))))
	p.must(cmd.MarkFlagDirname("cwd"))
	return cmd
}

// settings are the flags that are settings.
func (o *runOptions) settings() map[string]string {
	flags := map[string]string{}
	for key, value := range map[string]string{"model": o.model, "reasoning_effort": o.effort, "engine.total_timeout": o.timeout} {
		if value != "" {
			flags[key] = value
		}
	}
	return flags
}

// runRun sees to it that with --json the last line is a result whatever
// happens, once the flags are understood.
func (p *program) runRun(cmd *cobra.Command, o *runOptions) error {
	err := p.runTask(cmd, o)
	var fixed *exitError
	if err == nil || !o.json || errors.As(err, &fixed) && fixed.told {
		return err
	}
	m := &machine{out: p.out}
	code := exitCode(err)
	return &exitError{code: code, err: errors.Join(err, m.result(engine.Result{Tools: []engine.ToolUse{}, Files: []string{}}, err, code)), told: true}
}

func (p *program) runTask(cmd *cobra.Command, o *runOptions) error {
	prompt, err := p.prompt(cmd, o)
	if err != nil {
		return err
	}
	cfg, err := p.load(o.settings())
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	t, err := p.newTalk(ctx, cfg, o.talkOptions)
	if err != nil {
		return err
	}
	defer t.close(ctx)
	return t.runOnce(ctx, prompt)
}

// runOnce runs one prompt as a task and reports what it came to.
func (t *talk) runOnce(ctx context.Context, prompt bridge.Prompt) error {
	began := time.Now()
	r, n, err := t.follow(t.bridge.Engine.Stream(ctx, engine.Task{Request: t.request, Prompt: prompt, Resume: t.opts.resume}))
	if err == nil && r.Reason == bridge.EndAborted {
		err = &bridge.Error{Code: bridge.CodeCanceled, Message: "the turn was aborted"}
	}
	if err == nil {
		err = n.verdict()
	}
	if err == nil && r.Reason == bridge.EndPartial {
		err = &exitError{code: exitPartly, err: &bridge.Error{Code: bridge.CodeUnsupported, Message: "not all was done that was asked for: see the notice"}}
	}
	if t.machine != nil {
		if werr := t.machine.result(r, err, exitCode(err)); werr != nil {
			return werr
		}
		if err == nil {
			return nil
		}
		return &exitError{code: exitCode(err), err: quietIfCanceled(err), told: true}
	}
	t.summary(r, n, err, time.Since(began))
	if err == nil {
		return nil
	}
	return &exitError{code: exitCode(err), err: quietIfCanceled(err)}
}

// quietIfCanceled drops an error that whoever pressed Ctrl-C need not read.
func quietIfCanceled(err error) error {
	if bridge.CodeOf(err) == bridge.CodeCanceled {
		return nil
	}
	return err
}

// maxTask bounds what is read from standard input.
const maxTask = 4 << 20

// prompt makes the prompt of the task and the files to send along.
func (p *program) prompt(cmd *cobra.Command, o *runOptions) (bridge.Prompt, error) {
	task := o.task
	if task == "-" {
		text, err := io.ReadAll(io.LimitReader(p.env.Stdin, maxTask+1))
		if err != nil {
			return bridge.Prompt{}, fmt.Errorf("read the task from standard input: %w", err)
		}
		if len(text) > maxTask {
			return bridge.Prompt{}, usage(cmd, "the task on standard input is longer than %d MiB", maxTask>>20)
		}
		task = string(text)
	}
	if strings.TrimSpace(task) == "" {
		return bridge.Prompt{}, usage(cmd, "the task is empty")
	}
	prompt := bridge.Prompt{Text: task}
	for _, name := range o.attach {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.env.Dir, path)
		}
		info, err := os.Stat(path)
		if err != nil {
			return bridge.Prompt{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "cannot attach " + name, Cause: pathCause(err),
				Remedy: "name an existing file or directory"}
		}
		prompt.Attachments = append(prompt.Attachments, bridge.Attachment{Name: filepath.Base(path), Path: path, Directory: info.IsDir()})
	}
	return prompt, nil
}

// pathCause is an error about a path without the path, which is named already.
func pathCause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
