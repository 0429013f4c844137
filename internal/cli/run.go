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

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// runOptions are the flags and arguments of run.
type runOptions struct {
	talkOptions
	task   string
	attach []string
}

func (p *program) runCommand() *cobra.Command {
	o := &runOptions{}
	cmd := complete(&cobra.Command{
		Use:   `run "TASK"`,
		Short: "Let Copilot do a task in a directory",
		Long: `Let Copilot do a task in a directory. TASK "-" is read from standard input.

Copilot may read and write in the working directory. Commands and the network need your
consent: you are asked in a terminal; elsewhere they are denied unless --yes is given.

The answer goes to standard output, everything else to standard error. With --json
standard output carries one event per line, and "result" last.

Ctrl-C ends the turn; a second one ends the program.`,
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
	})
	f := flagsOf(cmd)
	f.dir(&o.dir, "cwd", "C", "work in this `DIR` (default: the current directory, or the session's)")
	f.setting("model", "model", "m", "`MODEL` to use")
	f.setting("reasoning_effort", "reasoning-effort", "", "reasoning `EFFORT` of the model")
	f.setting("engine.total_timeout", "timeout", "", "longest `TIME` the task may take, such as 90s or 20m")
	f.StringVar(&o.resume, "resume", "", "resume the session `ID`")
	f.complete("resume", p.completeSessions)
	f.StringArrayVar(&o.attach, "attach", nil, "`FILE` or directory to send along; may be repeated")
	f.demo(&o.demo)
	o.commonFlags(f)
	return cmd
}

// commonFlags are those of run and sessions resume.
func (o *talkOptions) commonFlags(f flagSet) {
	f.json(&o.json, "write events and the result as JSON lines")
	f.yes(&o.yes, "consent to everything that would be asked")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show reasoning, sub-agents and the runtime's own events")
}

// runRun writes a result as the last line with --json, also if the task could
// not be started.
func (p *program) runRun(cmd *cobra.Command, o *runOptions) error {
	err := p.runTask(cmd, o)
	if !o.json {
		return err
	}
	return withResult(err, func(err error, code int) error {
		return p.activity(true, false, "").TurnEnded(engine.Result{Tools: []engine.ToolUse{}, Files: []string{}}, err, code, 0)
	})
}

func (p *program) runTask(cmd *cobra.Command, o *runOptions) error {
	prompt, err := p.prompt(cmd, o)
	if err != nil {
		return err
	}
	return p.configured(cmd, nil, func(ctx context.Context, c call) error {
		t, err := p.newTalk(ctx, c.cfg, o.talkOptions)
		if err != nil {
			return err
		}
		defer t.close(ctx)
		return t.runOnce(ctx, prompt)
	})
}

// runOnce runs one prompt as a task and reports the outcome.
func (t *talk) runOnce(ctx context.Context, prompt bridge.Prompt) error {
	began := time.Now()
	r, err := t.follow(t.bridge.Engine.Stream(ctx, engine.Task{Request: t.request, Prompt: prompt, Resume: t.opts.resume}))
	if err == nil && r.Reason == bridge.EndAborted {
		err = &bridge.Error{Code: bridge.CodeCanceled, Message: "the turn was aborted"}
	}
	if err == nil {
		err = denials(r.Tools)
	}
	if err == nil && r.Reason == bridge.EndPartial {
		err = &exitError{code: exitPartly, err: &bridge.Error{Code: bridge.CodeUnsupported, Message: "not all was done that was asked for: see the notice"}}
	}
	if werr := t.view.TurnEnded(r, err, exitCode(err), time.Since(began)); werr != nil {
		return werr
	}
	return ended(err, t.opts.json)
}

// maxTask is the longest task that is read from standard input.
const maxTask = 4 << 20

// prompt makes the prompt of the task and the files to send along.
func (p *program) prompt(cmd *cobra.Command, o *runOptions) (bridge.Prompt, error) {
	task := o.task
	if task == "-" {
		text, err := p.readStdin(cmd, "task", maxTask)
		if err != nil {
			return bridge.Prompt{}, err
		}
		task = string(text)
	}
	if strings.TrimSpace(task) == "" {
		return bridge.Prompt{}, usage(cmd, "the task is empty")
	}
	prompt := bridge.Prompt{Text: task}
	for _, name := range o.attach {
		path := p.path(name)
		info, err := os.Stat(path)
		if err != nil {
			return bridge.Prompt{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "cannot attach " + name, Cause: pathCause(err),
				Remedy: "name an existing file or directory"}
		}
		prompt.Attachments = append(prompt.Attachments, bridge.Attachment{Name: filepath.Base(path), Path: path, Directory: info.IsDir()})
	}
	return prompt, nil
}

// readStdin reads what an argument "-" stands for.
func (p *program) readStdin(cmd *cobra.Command, what string, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(p.env.Stdin, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the %s from standard input: %w", what, err)
	}
	if int64(len(text)) > most {
		return nil, usage(cmd, "the %s on standard input is longer than %d MiB", what, most>>20)
	}
	return text, nil
}

// pathCause is an error about a path without the path, which is named already.
func pathCause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (p *program) sessionsResumeCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "resume ID [PROMPT]",
		Short: "Resume a session",
		Long: `Resume a session. With PROMPT this is "run --resume"; without, on a terminal, prompts are
read until "exit" or the end of input.`,
		Example: `  copilot-bridge sessions resume 41bd9d7b
  copilot-bridge sessions resume 41bd9d7b "and now in French"`,
		Args: takes(cobra.RangeArgs(1, 2), "a session's id and at most one prompt in quotes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.resume = args[0]
			if len(args) == 2 {
				o.task = args[1]
				return p.runRun(cmd, o)
			}
			if o.json || !p.hasKeyboard() {
				return usage(cmd, "without a terminal a prompt is needed")
			}
			return p.runResume(cmd, o)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return p.completeSessions(cmd, args, typed)
		},
	}
	f := flagsOf(cmd)
	f.dir(&o.dir, "cwd", "C", "work in this `DIR` instead of the session's")
	f.setting("model", "model", "m", "`MODEL` to use from now on")
	o.commonFlags(f)
	return cmd
}

// runResume reads prompts in a loop. Ctrl-C ends the turn that runs, or the
// loop between turns.
func (p *program) runResume(cmd *cobra.Command, o *runOptions) error {
	t, s, err := p.resume(cmd, o)
	if err != nil {
		return err
	}
	defer t.close(cmd.Context())
	for {
		text, err := t.nextPrompt(cmd.Context())
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return ended(err, false)
		case text == "":
			continue
		case text == "exit" || text == "quit":
			return nil
		}
		if err := t.turn(cmd.Context(), s, text); err != nil {
			return err
		}
	}
}

// resume opens the session, interruptibly.
func (p *program) resume(cmd *cobra.Command, o *runOptions) (t *talk, s *engine.Session, err error) {
	err = p.configured(cmd, nil, func(ctx context.Context, c call) error {
		if t, err = p.newTalk(ctx, c.cfg, o.talkOptions); err != nil {
			return err
		}
		if s, err = t.bridge.Engine.Resume(ctx, t.opts.resume, t.request); err != nil {
			t.close(ctx)
			return err
		}
		t.view.Event(s.Opened())
		p.console.Dim(`Type a prompt, or "exit".`)
		return nil
	})
	return t, s, err
}

func (t *talk) nextPrompt(ctx context.Context) (string, error) {
	ctx, in := t.p.interruptible(ctx)
	defer in.stop()
	text, err := t.keyboard.Line(ctx, "> ")
	return strings.TrimSpace(text), err
}

// turn runs one prompt of the loop. Its failure is shown and does not end the
// loop; a request to end the process does.
func (t *talk) turn(ctx context.Context, s *engine.Session, text string) error {
	turnCtx, in := t.p.interruptible(ctx)
	began := time.Now()
	r, err := t.follow(s.Send(turnCtx, bridge.Prompt{Text: text}))
	in.stop()
	if werr := t.view.TurnEnded(r, err, exitCode(err), time.Since(began)); werr != nil {
		return werr
	}
	switch {
	case in.by != nil && in.by != os.Interrupt:
		return &exitError{code: exitInterrupted}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && bridge.CodeOf(err) != bridge.CodeCanceled:
		t.p.report(err, false)
	}
	return nil
}
