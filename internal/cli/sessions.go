package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

func (p *program) sessionsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "sessions",
		Short: "List, show, resume, pin and delete sessions",
		Example: `  copilot-bridge sessions list
  copilot-bridge sessions show 41bd9d7b
  copilot-bridge sessions resume 41bd9d7b
  copilot-bridge sessions delete 41bd9d7b
  copilot-bridge sessions prune --older-than 30d`,
	}, p.sessionsListCommand(), p.sessionsShowCommand(), p.sessionsResumeCommand(), p.sessionsDeleteCommand(),
		p.sessionsPruneCommand(), p.sessionsPinCommand("pin", "Keep sessions regardless of their age", true),
		p.sessionsPinCommand("unpin", "Allow pinned sessions to be pruned again", false))
}

// listOptions are the flags of list.
type listOptions struct{ directory, repo, branch, since, search string }

// filter is what the flags ask for.
func (p *program) filter(c call, o *listOptions) (f sessionstore.Filter, err error) {
	f = sessionstore.Filter{Repository: o.repo, Branch: o.branch, Text: o.search}
	if o.directory != "" {
		if f.Directory, err = filepath.Abs(p.path(o.directory)); err != nil {
			return f, err
		}
	}
	if o.since == "" {
		return f, nil
	}
	f.Since, err = parseSince(c, o.since, time.Local)
	return f, err
}

// parseSince reads the flag --since: a time ago, or a date.
func parseSince(c call, text string, where *time.Location) (time.Time, error) {
	if day, err := time.ParseInLocation(time.DateOnly, text, where); err == nil {
		return day, nil
	}
	age, err := parseAge(text)
	if err != nil {
		return time.Time{}, usage(c.cmd, "--since=%q: must be a time such as 7d or 12h, or a date such as 2026-01-31", text)
	}
	return time.Now().Add(-age), nil
}

func (p *program) sessionsListCommand() *cobra.Command {
	o := &listOptions{}
	cmd := p.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List stored sessions, newest first",
		Example: `  copilot-bridge sessions list
  copilot-bridge sessions list --directory . --since 7d
  copilot-bridge sessions list --repo octo/widgets --branch main --search "failing test"
  copilot-bridge sessions list --json | jq -r '.[].id'`,
	}, func(ctx context.Context, c call) error {
		filter, err := p.filter(c, o)
		if err != nil {
			return err
		}
		store := app.Store(c.cfg)
		store.Tell = func(told string) { p.console.Warn(told) }
		all, err := store.List(ctx)
		if err != nil {
			return err
		}
		entries := slices.DeleteFunc(slices.Clone(all), func(e sessionstore.Entry) bool { return !filter.Match(e) })
		switch {
		case p.json:
			return p.printJSON(entries)
		case len(entries) == 0 && len(all) > 0:
			p.console.Line("None of the " + plural(len(all), "session") + " matches.")
			return nil
		case len(entries) == 0:
			p.console.Line("There are no sessions yet. Start one with: copilot-bridge run \"…\"")
			return nil
		}
		width := 0 // no limit in a pipe
		if p.console.OutTTY {
			width = p.env.Width(p.env.Stdout)
		}
		return p.print(p.sessionTable(entries, width))
	})
	f := flagsOf(cmd)
	f.dir(&o.directory, "directory", "", "those that work in this `DIR` or below")
	f.text(&o.repo, "repo", "those in the repository `OWNER/NAME`")
	f.text(&o.branch, "branch", "those on this `BRANCH`")
	f.text(&o.since, "since", "those used within this `TIME`, such as 7d, or since a date")
	f.text(&o.search, "search", "those with this `TEXT` in title, directory or model")
	f.json("write JSON")
	return cmd
}

// sessionTable lists sessions; lines are cut to width unless that is 0.
func (p *program) sessionTable(entries []sessionstore.Entry, width int) string {
	short := idLength(entries)
	rows := [][]string{{"ID", "STATE", "AGE", "MODEL", "TURNS", "TOKENS", "DIRECTORY", "TITLE"}}
	for _, e := range entries {
		state := string(e.State)
		if e.Pinned {
			state += ", pinned"
		}
		rows = append(rows, []string{e.ID[:min(short, len(e.ID))], state, view.Age(time.Since(e.Updated)), e.Model, fmt.Sprint(e.Turns),
			fmt.Sprintf("%d/%d", e.InputTokens, e.OutputTokens), p.short(e.WorkingDirectory), e.Title})
	}
	return view.Table(rows, width)
}

// idLength is the length at which ids differ, at least eight characters.
func idLength(entries []sessionstore.Entry) int {
	for n := 8; ; n++ {
		seen, longest := map[string]bool{}, 0
		for _, e := range entries {
			seen[e.ID[:min(n, len(e.ID))]] = true
			longest = max(longest, len(e.ID))
		}
		if len(seen) == len(entries) || n >= longest {
			return n
		}
	}
}

func (p *program) sessionsShowCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use:   "show ID",
		Short: "Show a session and its conversation",
		Long: `Show a session and its conversation. The beginning of an id is enough; "last" is the session
used last.
The runtime is started to read the conversation, but no model is called.`,
		Example: `  copilot-bridge sessions show 41bd9d7b
  copilot-bridge sessions show 41bd9d7b --json`,
		Args:              takes(cobra.ExactArgs(1), "one session's id"),
		ValidArgsFunction: p.completeSessions,
	}, func(ctx context.Context, c call) error { return p.showSession(ctx, c) })
	flagsOf(cmd).json("write JSON")
	return cmd
}

// shownSession is what show writes as JSON.
type shownSession struct {
	Session      sessionstore.Entry `json:"session"`
	Conversation []json.RawMessage  `json:"conversation"` // events; null if it cannot be read
	Problem      *bridge.Error      `json:"problem,omitempty"`
}

func (p *program) showSession(ctx context.Context, c call) error {
	entry, err := app.Store(c.cfg).Get(ctx, c.args[0])
	if err != nil {
		return err
	}
	events, err := p.history(ctx, c.cfg, entry)
	if bridge.CodeOf(err) == bridge.CodeCanceled {
		return err
	}
	if p.json {
		return p.showJSON(entry, events, err)
	}
	text := p.details(entry)
	if err == nil {
		return p.print(text + "\n" + view.Conversation(events, entry.WorkingDirectory))
	}
	p.console.Warn("the conversation is not available: " + err.Error())
	if remedy := bridge.AsError(err).Remedy; remedy != "" {
		p.console.Line("  → " + remedy)
	}
	return p.print(text)
}

func (p *program) showJSON(entry sessionstore.Entry, events []bridge.Event, problem error) error {
	out := shownSession{Session: entry}
	if problem != nil {
		out.Problem = view.Shown(problem)
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

// history reads the conversation of a session. It installs nothing.
func (p *program) history(ctx context.Context, cfg *config.Config, entry sessionstore.Entry) (events []bridge.Event, err error) {
	if _, err := copilotruntime.Find(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath}); err != nil {
		return nil, err
	}
	opts := p.options(cfg)
	opts.NoTurns = true
	b, err := p.start(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		// To look is not to use: the list stays as it was.
		err = errors.Join(err, b.Close(ctx), restore(ctx, app.Store(cfg), entry))
	}()
	spec := b.Spec(bridge.Profile(entry.Profile), entry.WorkingDirectory)
	spec.Shared = true
	defer p.progress().Begin("reading the conversation")()
	s, err := b.Engine.Resume(ctx, entry.ID, engine.Request{Spec: spec, Door: "cli"})
	if err != nil {
		return nil, err
	}
	return s.History(ctx)
}

// restore undoes what resuming a session only to read it did to the list,
// unless the session was used meanwhile.
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

func (p *program) details(e sessionstore.Entry) string {
	return view.Fields([][2]string{
		{"session", e.ID}, {"title", e.Title}, {"state", string(e.State)}, {"directory", p.short(e.WorkingDirectory)},
		{"repository", e.Repository}, {"branch", e.Branch}, {"model", e.Model},
		{"profile", string(e.Profile)}, {"agent", e.Agent}, {"turns", fmt.Sprint(e.Turns)},
		{"tokens", view.Count(e.InputTokens) + " in, " + view.Count(e.OutputTokens) + " out"},
		{"created", e.Created.Local().Format(time.DateTime)}, {"last used", e.Updated.Local().Format(time.DateTime)},
	}...)
}
