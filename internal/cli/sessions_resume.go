package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func (p *program) sessionsResumeCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "resume ID [PROMPT]",
		Short: "Go on with a session",
		Long: `Go on with a session. With a PROMPT it is like "run --resume"; without one, on a
terminal, it reads prompts until "exit" or the end of input.`,
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
	f := cmd.Flags()
	f.StringVarP(&o.dir, "cwd", "C", "", "work in this `DIR` instead of the session's")
	f.StringVarP(&o.model, "model", "m", "", "`MODEL` to use from now on")
	f.BoolVar(&o.json, "json", false, "write events and the result as JSON lines")
	f.BoolVarP(&o.yes, "yes", "y", false, "consent to everything that would be asked")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show thoughts, sub-agents and the runtime's own events")
	p.must(cmd.RegisterFlagCompletionFunc("model", cobra.NoFileCompletions))
	p.must(cmd.MarkFlagDirname("cwd"))
	return cmd
}

// runResume talks in a loop. Ctrl-C ends the turn that runs, or the loop
// between turns.
func (p *program) runResume(cmd *cobra.Command, o *runOptions) error {
	cfg, err := p.load(o.settings())
	if err != nil {
		return err
	}
	t, s, err := p.resume(cmd.Context(), cfg, o)
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
			return &exitError{code: exitCode(err), err: quietIfCanceled(err)}
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
func (p *program) resume(ctx context.Context, cfg *config.Config, o *runOptions) (*talk, *engine.Session, error) {
	ctx, in := p.interruptible(ctx)
	defer in.stop()
	t, err := p.newTalk(ctx, cfg, o.talkOptions)
	if err != nil {
		return nil, nil, err
	}
	s, err := t.bridge.Engine.Resume(ctx, t.opts.resume, t.request)
	if err != nil {
		t.close(ctx)
		return nil, nil, err
	}
	t.show(s.Opened())
	p.console.line(p.console.style.dim(`Type a prompt, or "exit".`))
	return t, s, nil
}

func (t *talk) nextPrompt(ctx context.Context) (string, error) {
	ctx, in := t.p.interruptible(ctx)
	defer in.stop()
	text, err := t.keyboard.line(ctx, "> ")
	return strings.TrimSpace(text), err
}

// turn runs one prompt of the loop. Its failure is shown and does not end the
// loop; a request to end the process does.
func (t *talk) turn(ctx context.Context, s *engine.Session, text string) error {
	turnCtx, in := t.p.interruptible(ctx)
	began := time.Now()
	r, n, err := t.follow(s.Send(turnCtx, bridge.Prompt{Text: text}))
	in.stop()
	t.summary(r, n, err, time.Since(began))
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
