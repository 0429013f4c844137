package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// slash is a command within a conversation.
type slash struct {
	name, args, about string
	between           bool // it can only be done between turns
	run               func(c *conversation, ctx context.Context, arg string) error
}

func slashes() []slash {
	return []slash{
		{"model", "[NAME]", "list the models, or change to one", true, (*conversation).model},
		{"new", "", "begin a new session", true, (*conversation).fresh},
		{"resume", "[ID]", "list the sessions of this directory, or resume one", true, (*conversation).change},
		{"usage", "", "show what the session has used", false, (*conversation).used},
		{"policy", "", "show the policy in force", false, (*conversation).rules},
		{"help", "", "show this help", false, (*conversation).help},
		{"quit", "", "leave", false, (*conversation).quit},
	}
}

// command does what a line asks for that begins with a slash, and says whether
// it was one. A path is none.
func (c *conversation) command(ctx context.Context, line string) bool {
	name, arg, _ := strings.Cut(line, " ")
	if line == "exit" || line == "quit" {
		name = "/quit"
	}
	name, ok := strings.CutPrefix(name, "/")
	if !ok || strings.Contains(name, "/") {
		return false
	}
	all := slashes()
	at := slices.IndexFunc(all, func(s slash) bool { return s.name == strings.ToLower(name) })
	var err error
	switch {
	case at < 0:
		err = unknownSlash(name, all)
	case all[at].between && c.running != nil:
		err = &bridge.Error{Code: bridge.CodeConflict, Message: "/" + all[at].name + " has to wait: a turn is running", Remedy: "end it with Ctrl-C, or wait for its end"}
	default:
		err = all[at].run(c, ctx, strings.TrimSpace(arg))
	}
	if err != nil {
		c.p.report(err, false)
	}
	return true
}

func unknownSlash(name string, all []slash) error {
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	err := &bridge.Error{Code: bridge.CodeInvalid, Message: "there is no command /" + name, Remedy: "see /help; a prompt that begins with a slash needs a blank in front"}
	if near := text.Nearest(name, names); near != "" {
		err.Remedy = "did you mean /" + near + "?"
	}
	return err
}

// complete returns what a line may become: names of commands, models, sessions.
func (c *conversation) complete(line string) (all []string) {
	name, arg, hasArg := strings.Cut(line, " ")
	if !strings.HasPrefix(name, "/") {
		return nil
	}
	add := func(candidate string) {
		if strings.HasPrefix(candidate, line) {
			all = append(all, candidate)
		}
	}
	switch {
	case !hasArg:
		for _, s := range slashes() {
			add("/" + s.name)
		}
	case name == "/model" && !strings.Contains(arg, " "):
		models, _ := app.KeptModels(c.cfg) // without a list there is nothing to offer
		for _, m := range models {
			add("/model " + m.ID)
		}
	case name == "/resume":
		entries, _ := c.stored(context.Background())
		for _, e := range entries {
			add("/resume " + e.ID)
		}
	}
	return all
}

func (c *conversation) quit(context.Context, string) error { c.left = true; return nil }

func (c *conversation) help(context.Context, string) error {
	var rows [][]string
	for _, s := range slashes() {
		rows = append(rows, []string{strings.TrimSpace("/" + s.name + " " + s.args), s.about})
	}
	c.p.console.Lines(view.Table(rows, 0) + `
Enter sends. \ at the end of a line, or Alt-Enter, goes on
in the next. Tab completes commands; up and down go through
what you typed before. While a turn runs, what you send goes
into it. Ctrl-C ends the turn; twice, or Ctrl-D, leaves.
`)
	return nil
}

func (c *conversation) model(ctx context.Context, name string) error {
	models, err := c.bridge.Engine.Models(ctx)
	if err != nil {
		return err
	}
	if err := app.KeepModels(c.cfg, models); err != nil {
		c.p.log.Warn("models.not_kept", "error", err) // only completion misses them
	}
	var names []string
	for _, m := range models {
		names = append(names, m.ID)
	}
	if name == "" {
		rows := [][]string{{"MODEL", "NAME", "STATE"}}
		for _, m := range models {
			state := m.Policy
			if m.ID == c.request.Spec.Model {
				state = "in use"
			}
			rows = append(rows, []string{m.ID, m.Name, state})
		}
		c.p.console.Lines(view.Table(rows, c.p.console.Width()))
		return nil
	}
	if len(names) > 0 && !slices.Contains(names, name) {
		err := &bridge.Error{Code: bridge.CodeInvalid, Message: "there is no model " + name, Remedy: "see /model"}
		if near := text.Nearest(name, names); near != "" {
			err.Remedy = "did you mean " + near + "?"
		}
		return err
	}
	if s := c.current(); s != nil {
		if err := s.SetModel(ctx, name, c.request.Spec.ReasoningEffort); err != nil {
			return err
		}
	}
	c.request.Spec.Model = name
	c.p.console.Dim("The model is " + name + " from now on.")
	return nil
}

func (c *conversation) fresh(ctx context.Context, _ string) error {
	c.leave(ctx)
	if err := c.guard(); err != nil {
		return err
	}
	c.p.console.Dim("A new session begins.")
	return nil
}

// stored are the sessions of the directory, the newest first.
func (c *conversation) stored(ctx context.Context) ([]sessionstore.Entry, error) {
	all, err := app.Store(c.cfg).List(ctx)
	return slices.DeleteFunc(all, func(e sessionstore.Entry) bool { return e.WorkingDirectory != c.dir }), err
}

func (c *conversation) change(ctx context.Context, id string) error {
	if id == "" {
		entries, err := c.stored(ctx)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			c.p.console.Line("There are no sessions of this directory yet.")
			return nil
		}
		short, rows := idLength(entries), [][]string{{"ID", "AGE", "TURNS", "TITLE"}}
		for _, e := range entries[:min(len(entries), 10)] {
			rows = append(rows, []string{e.ID[:min(short, len(e.ID))], view.Age(time.Since(e.Updated)), fmt.Sprint(e.Turns), e.Title})
		}
		c.p.console.Lines(view.Table(rows, c.p.console.Width()))
		return nil
	}
	entry, err := app.Store(c.cfg).Get(ctx, id)
	if err != nil {
		return err
	}
	if entry.WorkingDirectory != c.dir {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "session " + entry.ID + " works in " + entry.WorkingDirectory,
			Remedy: "resume it with: copilot-bridge chat --resume " + entry.ID[:min(8, len(entry.ID))]}
	}
	if s := c.current(); s != nil && s.ID() == entry.ID {
		c.p.console.Line("This is the session.")
		return nil
	}
	c.leave(ctx)
	if err := c.guard(); err != nil {
		return err
	}
	if entry.Model != "" {
		c.request.Spec.Model = entry.Model // a session keeps its model
	}
	if err := c.resume(ctx, entry.ID); err != nil {
		return err
	}
	c.p.console.Dim("Resumed session " + entry.ID + ": " + entry.Title)
	return nil
}

func (c *conversation) used(context.Context, string) error {
	s := c.current()
	if s == nil {
		c.p.console.Line("Nothing has been said yet.")
		return nil
	}
	u := s.Usage()
	some := func(n float64) string {
		if n == 0 {
			return "" // no row
		}
		return fmt.Sprintf("%g", n)
	}
	c.p.console.Lines(view.Fields([2]string{"session", s.ID()}, [2]string{"model", u.Model}, [2]string{"requests to the model", fmt.Sprint(u.Calls)},
		[2]string{"tokens in", view.Count(u.InputTokens)}, [2]string{"of them cached", tokenCount(int(u.CacheRead))},
		[2]string{"tokens out", view.Count(u.OutputTokens)}, [2]string{"premium requests", some(u.Premium)}, [2]string{"AI credits", some(u.Credits)}))
	return nil
}

func (c *conversation) rules(context.Context, string) error {
	text, err := policyText(c.cfg.Home, c.dir)
	if err != nil {
		return err
	}
	c.p.console.Lines(text)
	return nil
}
