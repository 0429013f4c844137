package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func (p *program) sessionsResumeCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "resume ID [PROMPT…]",
		Short: "Resume a session",
		Long: `Resume a session. "last" is the session used last. With PROMPT this is "run --resume"; without, on a terminal, prompts are
read until "exit" or the end of input.`,
		Example: `  copilot-bridge sessions resume last
  copilot-bridge sessions resume 41bd9d7b
  copilot-bridge sessions resume 41bd9d7b "and now in French"`,
		Args: takes(cobra.MinimumNArgs(1), "a session's id and a prompt"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.resume = args[0]
			if len(args) > 1 {
				o.task = strings.Join(args[1:], " ")
				return p.runRun(cmd, o)
			}
			if p.json || !p.hasKeyboard() {
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
	p.modelFlag(f, "`MODEL` to use from now on")
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
			return ended(err)
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
