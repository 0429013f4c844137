package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

func (p *program) sessionsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a session and what was said in it",
		Long: `Show a session and what was said in it. The beginning of an id will do.
The runtime is started to read the conversation, but no model is asked anything.`,
		Example: `  copilot-bridge sessions show 41bd9d7b
  copilot-bridge sessions show 41bd9d7b --json`,
		Args: takes(cobra.ExactArgs(1), "one session's id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runSessionsShow(cmd.Context(), args[0], asJSON)
		},
		ValidArgsFunction: p.completeSessions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// shownSession is what show writes as JSON.
type shownSession struct {
	Session      sessionstore.Entry `json:"session"`
	Conversation []json.RawMessage  `json:"conversation"` // events; null if it cannot be read
	Problem      *bridge.Error      `json:"problem,omitempty"`
}

func (p *program) runSessionsShow(ctx context.Context, id string, asJSON bool) error {
	cfg, err := p.load(nil)
	if err != nil {
		return err
	}
	entry, err := app.Store(cfg).Get(ctx, id)
	if err != nil {
		return err
	}
	ctx, in := p.interruptible(ctx)
	defer in.stop()
	events, err := p.history(ctx, cfg, entry)
	if bridge.CodeOf(err) == bridge.CodeCanceled {
		return err
	}
	if asJSON {
		return p.showJSON(entry, events, err)
	}
	var b strings.Builder
	b.WriteString(details(entry, p.env.HomeDir))
	switch {
	case err != nil:
		e := bridge.AsError(err)
		p.console.line("! the conversation is not available: " + err.Error())
		if e.Remedy != "" {
			p.console.line("  → " + e.Remedy)
		}
	default:
		b.WriteString("\n" + conversation(events, entry.WorkingDirectory))
	}
	return p.print(b.String())
}

func (p *program) showJSON(entry sessionstore.Entry, events []bridge.Event, problem error) error {
	out := shownSession{Session: entry}
	if problem != nil {
		out.Problem = shown(problem)
		return p.printJSON(out)
	}
	out.Conversation = []json.RawMessage{}
	for _, ev := range events {
		if _, other := ev.(bridge.Other); other {
			continue
		}
		line, err := bridge.EncodeEvent(ev)
		if err != nil {
			return err
		}
		out.Conversation = append(out.Conversation, line)
	}
	return p.printJSON(out)
}

// history reads what was said in a session. It installs nothing.
func (p *program) history(ctx context.Context, cfg *config.Config, entry sessionstore.Entry) (events []bridge.Event, err error) {
	if _, err := copilotruntime.Find(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath}); err != nil {
		return nil, err
	}
	b, err := p.start(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	defer func() {
		// To look is not to use: the list stays as it was.
		err = errors.Join(err, b.Close(ctx), restore(ctx, app.Store(cfg), entry))
	}()
	spec := b.Spec(bridge.Profile(entry.Profile), entry.WorkingDirectory)
	spec.Shared = true
	s, err := b.Engine.Resume(ctx, entry.ID, engine.Request{Spec: spec, Door: "cli"})
	if err != nil {
		return nil, err
	}
	return s.History(ctx)
}

// restore undoes what resuming a session only to read it did to the list,
// unless somebody has used the session meanwhile.
func restore(ctx context.Context, store *sessionstore.Store, entry sessionstore.Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := store.Update(ctx, entry.ID, func(e *sessionstore.Entry) error {
		if e.Turns == entry.Turns && e.State == sessionstore.StateClosed {
			e.State, e.Updated, e.Model = entry.State, entry.Updated, entry.Model
		}
		return nil
	})
	if bridge.CodeOf(err) == bridge.CodeNotFound {
		return nil // deleted meanwhile
	}
	return err
}

func details(e sessionstore.Entry, home string) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-11s %s\n", name, approval.Visible(value))
		}
	}
	line("session", e.ID)
	line("title", e.Title)
	line("state", string(e.State))
	line("directory", shorten(e.WorkingDirectory, "", home))
	line("model", e.Model)
	line("profile", string(e.Profile))
	line("agent", e.Agent)
	line("turns", fmt.Sprint(e.Turns))
	line("tokens", count(e.InputTokens)+" in, "+count(e.OutputTokens)+" out")
	line("created", e.Created.Local().Format(time.DateTime))
	line("last used", e.Updated.Local().Format(time.DateTime))
	return b.String()
}

// conversation is what was said and done, for people.
func conversation(events []bridge.Event, dir string) string {
	var b strings.Builder
	say := func(who, text string) {
		if text = strings.TrimSpace(harmless(text)); text != "" {
			fmt.Fprintf(&b, "%s\n  %s\n\n", who, strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	calls := map[string]bridge.ToolCall{}
	for _, ev := range events {
		switch e := ev.(type) {
		case bridge.UserSaid:
			say("You", e.Text)
		case bridge.MessageDone:
			if e.AgentID == "" {
				say(speaker(e.Model), e.Text)
			}
		case bridge.ToolStarted:
			calls[e.Call.ID] = e.Call
		case bridge.ToolFinished:
			end := judge(e, "")
			fmt.Fprintf(&b, "%s %s (%s)\n\n", end.mark, toolText(calls[e.CallID], dir), end.text)
		default:
		}
	}
	if b.Len() == 0 {
		return "Nothing was said.\n"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// speaker names the model, so that the rehearsal's words are nobody else's.
func speaker(model string) string {
	if model == "" {
		return "Assistant"
	}
	return "Assistant (" + approval.Visible(model) + ")"
}
