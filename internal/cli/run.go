package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// runOptions are the flags and arguments of run.
type runOptions struct {
	talkOptions
	task   string
	attach []string
	mode   string
}

func (p *program) runCommand() *cobra.Command {
	o := &runOptions{}
	cmd := complete(&cobra.Command{
		Use:   "run TASK…",
		Short: "Let Copilot do a task in a directory",
		Long: `Let Copilot do a task in a directory. The words of TASK need no quotes, but for what the
shell itself would act on. TASK "-" is read from standard input. With any other TASK, text that
is piped in goes along with it.

Copilot may read and write in the working directory. Commands and the network need your
consent: you are asked in a terminal; elsewhere they are denied unless --yes is given.

The answer goes to standard output, everything else to standard error. With --json
standard output carries one event per line, and "result" last.

With --mode plan Copilot makes a plan before anything is changed, with autopilot it goes on
until it says that the task is done; your policy holds as ever. A session stays in its mode.

Ctrl-C ends the turn; a second one ends the program.`,
		Example: `  copilot-bridge run create hello.txt saying hi
  copilot-bridge run "fix the failing test" --cwd ~/src/app --timeout 20m
  git diff | copilot-bridge run "explain this"
  copilot-bridge run - --model gpt-5 < task.md
  copilot-bridge run "list the files" --json | jq -r 'select(.type=="result").text'
  copilot-bridge run "and now in French" --resume 41bd9d7b
  copilot-bridge run "add a cache" --mode plan`,
		Args: takes(cobra.MinimumNArgs(1), "a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.task = strings.Join(args, " ")
			return p.runRun(cmd, o)
		},
	})
	f := flagsOf(cmd)
	f.dir(&o.dir, "cwd", "C", "work in this `DIR` (default: the current directory, or the session's)")
	p.modelFlag(f, "`MODEL` to use")
	f.setting("reasoning_effort", "reasoning-effort", "reasoning `EFFORT` of the model")
	f.setting("engine.total_timeout", "timeout", "longest `TIME` the task may take, such as 90s or 20m")
	f.StringVar(&o.resume, "resume", "", "resume the session `ID`, or \"last\"")
	f.complete("resume", p.completeSessions)
	f.StringArrayVar(&o.attach, "attach", nil, "`FILE` or directory to send along; may be repeated")
	f.choice(&o.mode, "mode", "", "how Copilot works from now on in the session", bridge.ModeInteractive, bridge.ModePlan, bridge.ModeAutopilot)
	f.demo()
	o.commonFlags(f)
	return cmd
}

// commonFlags are those of run and sessions resume.
func (o *talkOptions) commonFlags(f flagSet) {
	f.json("write events and the result as JSON lines")
	f.yes(&o.yes, "consent to everything that would be asked")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show reasoning, sub-agents and the runtime's own events")
}

// runRun writes a result as the last line with --json, also if the task could
// not be started.
func (p *program) runRun(cmd *cobra.Command, o *runOptions) error {
	err := p.runTask(cmd, o)
	if !p.json {
		return err
	}
	return withResult(err, func(err error, code int) error {
		return p.activity(view.Options{}).TurnEnded(engine.Result{Tools: []engine.ToolUse{}, Files: []string{}}, err, code, 0)
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
		err = denials(r.Tools, t.p.json)
	}
	if err == nil && r.Reason == bridge.EndPartial {
		err = &exitError{code: exitPartly, err: &bridge.Error{Code: bridge.CodeUnsupported, Message: "not all was done that was asked for",
			Remedy: "see the notice above"}}
	}
	if werr := t.view.TurnEnded(r, err, exitCode(err), time.Since(began)); werr != nil {
		return werr
	}
	return ended(err)
}

// maxTask is the longest task that is read from standard input.
const maxTask = 4 << 20

// prompt makes the prompt of the task and the files to send along.
func (p *program) prompt(cmd *cobra.Command, o *runOptions) (bridge.Prompt, error) {
	task := o.task
	if task == "-" {
		text, err := p.readStdin("task", maxTask)
		if err != nil {
			return bridge.Prompt{}, err
		}
		task = string(text)
	}
	if strings.TrimSpace(task) == "" {
		return bridge.Prompt{}, usage(cmd, "the task is empty")
	}
	if o.task != "-" {
		input, err := p.pipedInput(cmd.Context(), pipedWithin)
		if err != nil {
			return bridge.Prompt{}, err
		}
		p.piped = input != ""
		task = withInput(task, input)
	}
	prompt := bridge.Prompt{Text: task, Mode: o.mode}
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
