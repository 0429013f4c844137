package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func (p *program) chatCommand() *cobra.Command {
	o := &runOptions{}
	cmd := complete(&cobra.Command{
		Use:   "chat [PROMPT…]",
		Short: "Talk with Copilot in the terminal",
		Long: `Talk with Copilot in the terminal, about a directory and in it. "copilot-bridge" alone does the
same. What Copilot may do is as with "run".

Enter sends; a line that ends with \, or Alt-Enter, goes on in the next. While a turn runs, what
you send goes into it. Ctrl-C ends the turn; twice, or Ctrl-D, leaves. /help lists the commands.

Where no terminal is, the whole input is one prompt: "chat < task.md" is "run - < task.md".`,
		Example: `  copilot-bridge chat
  copilot-bridge chat why does the build fail
  copilot-bridge chat --resume last
  copilot-bridge chat --cwd ~/src/app --model gpt-5`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.task = strings.Join(args, " ")
			return p.runChat(cmd, o)
		},
	})
	f := flagsOf(cmd)
	f.dir(&o.dir, "cwd", "C", "work in this `DIR` (default: the current directory, or the session's)")
	p.modelFlag(f, "`MODEL` to use")
	f.setting("reasoning_effort", "reasoning-effort", "reasoning `EFFORT` of the model")
	f.StringVar(&o.resume, "resume", "", "resume the session `ID`, or \"last\"")
	f.complete("resume", p.completeSessions)
	f.choice(&o.mode, "mode", "", "how Copilot works from now on in the session", bridge.ModeInteractive, bridge.ModePlan, bridge.ModeAutopilot)
	f.demo()
	f.yes(&o.yes, "consent to everything that would be asked")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show reasoning, sub-agents and the runtime's own events")
	return cmd
}

// runChat talks with a person, or runs one prompt where there is none.
func (p *program) runChat(cmd *cobra.Command, o *runOptions) error {
	if !p.hasKeyboard() {
		if p.env.IsTerminal(p.env.Stdin) {
			return usage(cmd, "a conversation needs the terminal for standard error too")
		}
		if o.task == "" {
			o.task = "-"
		}
		return p.runRun(cmd, o)
	}
	var c *conversation
	err := p.configured(cmd, nil, func(ctx context.Context, call call) (err error) {
		c, err = p.newConversation(ctx, call.cfg, o)
		return err
	})
	if err != nil {
		return err
	}
	defer c.close(cmd.Context())
	past, err := c.history.Load()
	if err != nil {
		p.log.Warn("chat.history_unreadable", "error", err)
	}
	p.console.Dim("Type a prompt, or /help. Ctrl-C ends a turn, Ctrl-D leaves.")
	if p.console.ErrTTY {
		c.prompt, err = c.keyboard.Prompt(view.PromptOptions{History: past, Complete: c.complete})
	}
	if c.prompt == nil || err != nil {
		return c.lineByLine(cmd.Context(), o.task)
	}
	return c.atPrompt(cmd.Context(), o.task)
}

// conversation is a talk of any number of turns, in one session after another.
type conversation struct {
	*talk
	cfg     *config.Config
	history *app.History
	prompt  *view.Prompt // nil on a terminal that cannot move its cursor
	next    []string     // prompts for when the turn has ended
	mode    string       // for the next prompt; see bridge.Prompt
	left    bool         // the person wants to go
	again   bool         // Ctrl-C was the last thing pressed

	running context.CancelCauseFunc // ends the turn; nil between turns
	ended   chan error              // has a value when it has ended

	mu      sync.Mutex
	session *engine.Session // nil until something has been said
}

// newConversation starts the bridge, and resumes the session that is asked for.
// The caller closes it.
func (p *program) newConversation(ctx context.Context, cfg *config.Config, o *runOptions) (*conversation, error) {
	o.chat = true
	t, err := p.newTalk(ctx, cfg, o.talkOptions)
	if err != nil {
		return nil, err
	}
	c := &conversation{talk: t, cfg: cfg, mode: o.mode, history: app.ChatHistory(cfg), ended: make(chan error, 1)}
	if t.opts.resume != "" {
		if err := c.resume(ctx, t.opts.resume); err != nil {
			t.close(ctx)
			return nil, err
		}
	}
	return c, nil
}

// close ends the turn that runs, if any, and waits for it. The terminal is
// given back before, so that Ctrl-C is a signal again.
func (c *conversation) close(ctx context.Context) {
	c.keyboard.Close()
	if c.running != nil {
		c.running(&bridge.Error{Code: bridge.CodeCanceled, Message: "interrupted"})
		<-c.ended
	}
	c.leave(ctx)
	c.talk.close(ctx)
}

// atPrompt talks with a person who can type at any time.
func (c *conversation) atPrompt(ctx context.Context, text string) error {
	ctx, in := c.p.interruptible(ctx)
	defer in.stop()
	if text != "" {
		c.p.console.Said(text)
		c.begin(ctx, text)
	}
	for !c.left {
		select {
		case in := <-c.prompt.Inputs():
			c.input(ctx, in)
		case err := <-c.ended:
			c.running = nil
			if err != nil {
				return err
			}
			if len(c.next) > 0 {
				text := c.next[0]
				c.next = c.next[1:]
				c.begin(ctx, text)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// input does what the person has entered.
func (c *conversation) input(ctx context.Context, in view.Input) {
	switch in.Kind {
	case view.InputEnd:
		c.left = true
	case view.InputInterrupt:
		c.interrupt()
		return
	case view.InputLine:
		c.keep(in.Text)
		switch {
		case c.command(ctx, in.Text):
		case c.running != nil:
			c.steer(ctx, in.Text)
		default:
			c.begin(ctx, in.Text)
		}
	}
	c.again = false
}

// keep adds to the history, on disk and at the prompt.
func (c *conversation) keep(line string) {
	if err := c.history.Add(c.p.scrub.Text(line)); err != nil {
		c.p.log.Warn("chat.history_not_kept", "error", err) // the conversation goes on
	}
	if c.prompt != nil {
		c.prompt.Remember(line)
	}
}

// interrupt ends the turn, or throws away what is typed; the second one in a
// row leaves.
func (c *conversation) interrupt() {
	again := c.again
	c.again = true
	switch {
	case again:
		c.left = true
	case c.running != nil:
		if len(c.next) > 0 {
			c.prompt.Restore(strings.Join(c.next, "\n"))
			c.next = nil
		}
		c.running(&bridge.Error{Code: bridge.CodeCanceled, Message: "interrupted"})
		c.p.console.Warn("interrupting… (Ctrl-C again to leave)")
	case c.prompt.Clear():
		c.again = false
	default:
		c.p.console.Dim("Ctrl-C again, or Ctrl-D, leaves.")
	}
}

// begin runs a turn beside the prompt.
func (c *conversation) begin(ctx context.Context, text string) {
	ctx, c.running = context.WithCancelCause(ctx)
	go func() { c.ended <- c.turn(ctx, text) }() // close waits for it
}

// turn runs one prompt and shows it. Its failure is shown too, and does not end
// the conversation.
func (c *conversation) turn(ctx context.Context, text string) error {
	began := time.Now()
	s, err := c.opened(ctx)
	var r engine.Result
	if err == nil {
		prompt := bridge.Prompt{Text: text, Mode: c.mode}
		c.mode = ""
		r, err = c.follow(s.Send(ctx, prompt))
	}
	if werr := c.view.TurnEnded(r, err, exitCode(err), time.Since(began)); werr != nil {
		return werr
	}
	if err != nil && bridge.CodeOf(err) != bridge.CodeCanceled {
		c.p.report(err, false)
	}
	return nil
}

// opened is the session, which is opened when the first thing is said.
func (c *conversation) opened(ctx context.Context) (*engine.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		return c.session, nil
	}
	s, err := c.bridge.Engine.Open(ctx, c.request)
	if err == nil {
		c.session = s
	}
	return s, err
}

// current is the session, nil if nothing has been said.
func (c *conversation) current() *engine.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// steer sends a prompt into the running turn. If the turn takes none, it is the
// next one.
func (c *conversation) steer(ctx context.Context, text string) {
	err := error(&bridge.Error{Code: bridge.CodeConflict})
	if c.mu.TryLock() { // it is locked while the session is opened
		s := c.session
		c.mu.Unlock()
		if s != nil {
			err = s.Steer(ctx, bridge.Prompt{Text: text})
		}
	}
	switch bridge.CodeOf(err) {
	case "":
		c.p.console.Dim("  sent into the turn")
	case bridge.CodeConflict, bridge.CodeUnsupported:
		c.next = append(c.next, text)
		c.p.console.Dim("  comes next, when the turn has ended")
	default:
		c.p.report(err, false)
		c.prompt.Restore(text)
	}
}

// resume makes a stored session the one that is talked with.
func (c *conversation) resume(ctx context.Context, id string) error {
	s, err := c.bridge.Engine.Resume(ctx, id, c.request)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
	c.view.Event(s.Opened())
	return nil
}

// leave closes the session and says how to come back to it.
func (c *conversation) leave(ctx context.Context) {
	s := c.current()
	if s == nil {
		return
	}
	c.mu.Lock()
	c.session = nil
	c.mu.Unlock()
	c.p.close(ctx, s)
	c.p.console.Dim("session " + s.ID() + " · resume with: copilot-bridge chat --resume " + s.ID()[:min(8, len(s.ID()))])
}

// lineByLine talks on a terminal that cannot move its cursor. Ctrl-C ends the
// turn that runs, or the conversation between turns.
func (c *conversation) lineByLine(ctx context.Context, text string) error {
	for {
		if text != "" && !c.command(ctx, text) {
			turnCtx, in := c.p.interruptible(ctx)
			err := c.turn(turnCtx, text)
			in.stop()
			switch {
			case err != nil:
				return err
			case in.by != nil && in.by != os.Interrupt:
				return &exitError{code: exitInterrupted}
			case ctx.Err() != nil:
				return context.Cause(ctx)
			}
		}
		if c.left {
			return nil
		}
		lineCtx, in := c.p.interruptible(ctx)
		line, err := c.keyboard.Line(lineCtx, "> ")
		in.stop()
		switch text = strings.TrimRight(line, " \t"); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return ended(err)
		case text != "":
			c.keep(text)
		}
	}
}
