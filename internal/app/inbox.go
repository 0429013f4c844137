package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

// inbox shows the questions of this process to all who can answer them, while
// they are also put here: at the terminal, by the client. The first answer
// counts, and the question is taken back everywhere else.
type inbox struct {
	home  string
	place func() (*live.Local, error)
	log   *slog.Logger
	// here asks as if there were no inbox.
	here approval.Asker
}

// inbox returns an asker whose questions can be answered from anywhere.
func (b *Bridge) inbox(here approval.Asker) approval.Asker {
	if here == nil {
		here = approval.Nobody{}
	}
	switch here.(type) {
	case approval.Yes, fleetAsker: // the answer comes from there alone
		return here
	}
	return b.shownBy(here)
}

func (b *Bridge) shownBy(here approval.Asker) inbox {
	return inbox{b.opts.Config.Home, b.place, b.opts.Logger, here}
}

// asking is where a bridge that was not started shows questions: servers of tools
// start one for each task, and ask about their own files without.
type asking struct {
	mu    sync.Mutex
	local *live.Local
}

// place is where this process shows its questions.
func (b *Bridge) place() (*live.Local, error) {
	if l := b.live; l != nil {
		return l, nil
	}
	b.asking.mu.Lock()
	defer b.asking.mu.Unlock()
	if b.asking.local != nil {
		return b.asking.local, nil
	}
	o := b.opts
	local, err := live.Start(o.Config.Home, live.Process{Command: o.Command, Workspace: o.Workspace, Version: o.Version})
	b.asking.local = local
	return local, err
}

func (a *asking) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.local == nil {
		return nil
	}
	return a.local.Close()
}

// Alone says whether nobody is here, and nobody watches elsewhere.
func (i inbox) Alone() bool { return approval.Alone(i.here) && !live.Watched(i.home) }

// Ask implements approval.Asker.
func (i inbox) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	lead, body, err := q.Whole(approval.MaxShown)
	if err != nil {
		return i.here.Ask(ctx, q) // which refuses it in its own words
	}
	r := q.Request
	shown := live.Question{
		Session: q.Session, Request: r.ID, Door: q.Door, Client: q.Client, Dir: q.Dir, Agents: r.Agents,
		Who: q.Who, Lead: lead, Body: body, Says: approval.Visible(q.Says),
		Kind: string(r.Kind), Tool: r.Tool, Command: approval.Lines(r.Command), Diff: approval.Lines(r.Diff), Paths: r.Paths, URLs: r.URLs,
		Rule: q.Rule, Reason: q.Reason, Answers: []string{live.Once, live.Session, live.Deny}, Always: q.Rules,
	}
	if len(q.Rules) > 0 {
		shown.Answers = []string{live.Once, live.Session, live.Always, live.Deny}
	}
	return first(ctx, i, shown,
		func(ctx context.Context) (approval.Answer, error) { return i.here.Ask(ctx, q) },
		func(a approval.Answer) live.Reply {
			return live.Reply{Answer: consents[a.Consent], Reason: a.Reason, By: a.By}
		},
		func(r live.Reply) (approval.Answer, error) {
			for consent, word := range consents {
				if word == r.Answer {
					return approval.Answer{Consent: approval.Consent(consent), Reason: r.Reason, By: r.By}, nil
				}
			}
			return approval.Answer{By: r.By}, nil
		})
}

// consents are the answers to a question of consent, as replies have them.
var consents = [...]string{approval.No: live.Deny, approval.Once: live.Once, approval.Session: live.Session, approval.Always: live.Always}

// watchPoll is how often a question that nobody is asked here looks whether
// somebody still watches.
const watchPoll = time.Second

// first puts a question here and shows it elsewhere, and returns the first
// answer. If nobody can be asked here it waits as long as somebody watches.
func first[T any](ctx context.Context, i inbox, q live.Question, here func(context.Context) (T, error), said func(T) live.Reply, read func(live.Reply) (T, error)) (T, error) {
	q.Until, _ = ctx.Deadline()
	var open *live.Open
	place, err := i.place()
	if err == nil {
		open, err = place.Open(q)
	}
	if err != nil {
		i.log.Warn("questions.not_shown: this question can only be answered where it was put", "error", err)
		return here(ctx)
	}
	defer open.Close()
	type result struct {
		answer T
		err    error
	}
	asking, cancel := context.WithCancelCause(ctx)
	answered := make(chan result, 1)
	var asked sync.WaitGroup
	asked.Go(func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("the question could not be put: %v", p)
			}
			answered <- r
		}()
		r.answer, r.err = here(asking)
	})
	// What is shown here is taken back before anything else happens.
	elsewhere := func(r live.Reply) (T, error) {
		cancel(&approval.ElsewhereError{By: r.By, Said: r.Said()})
		asked.Wait()
		return read(r)
	}
	defer asked.Wait()
	defer cancel(nil)
	var got result
	select {
	case r := <-open.Replied():
		return elsewhere(r)
	case got = <-answered:
	}
	if got.err == nil {
		if r, won := open.Claim(said(got.answer)); !won {
			return read(r)
		}
		return got.answer, nil
	}
	tick := time.NewTicker(watchPoll)
	defer tick.Stop()
	for ctx.Err() == nil && live.Watched(i.home) {
		select {
		case r := <-open.Replied():
			return read(r)
		case <-tick.C:
		case <-ctx.Done():
			got.err = ctx.Err()
		}
	}
	if r, won := open.Claim(live.Reply{}); !won {
		return read(r)
	}
	return got.answer, orDashboard(got.err)
}

// orDashboard names the dashboard in the remedy of an error which says that
// nobody could be asked.
func orDashboard(err error) error {
	var e *bridge.Error
	if !errors.As(err, &e) || e.Code != bridge.CodeDenied {
		return err
	}
	const remedy = "open `copilot-bridge dashboard` to answer there, and try again"
	more := *e
	if more.Remedy = remedy; e.Remedy != "" {
		more.Remedy = strings.TrimSuffix(e.Remedy, ".") + ", or " + remedy
	}
	return &more
}

// Person returns who answers the questions of a session's agent: here, who may
// be nil, and whoever watches elsewhere. It is nil if that is nobody now.
func (b *Bridge) Person(g Guarding, gate *guard.Guard, here bridge.Person) bridge.Person {
	if here == nil && !live.Watched(b.opts.Config.Home) {
		return nil
	}
	return person{b.shownBy(nil), g, gate, here}
}

type person struct {
	inbox
	g    Guarding
	gate *guard.Guard
	here bridge.Person
}

var errNobody = &bridge.Error{Code: bridge.CodeDenied, Message: "nobody is there to answer"}

// question is a question of the agent as others see it, without secrets.
func (p person) question(text string, f *live.Form) live.Question {
	lead, body, _ := strings.Cut(strings.TrimSpace(approval.Lines(p.gate.Hide(text))), "\n")
	return live.Question{Session: p.gate.Session(), Door: p.g.Door, Client: p.g.Client, Dir: p.g.Workspace, Lead: lead, Body: body,
		Answers: []string{live.Text, live.Decline, live.Cancel}, Form: f}
}

// Ask implements bridge.Person.
func (p person) Ask(ctx context.Context, q bridge.Question) (bridge.Answer, error) {
	form := &live.Form{Freeform: q.Freeform || len(q.Choices) == 0}
	for _, c := range q.Choices {
		form.Choices = append(form.Choices, approval.Visible(p.gate.Hide(c)))
	}
	shown := p.question(q.Text, form)
	shown.Kind = "ask"
	return first(ctx, p.inbox, shown,
		func(ctx context.Context) (bridge.Answer, error) {
			if p.here == nil {
				return bridge.Answer{}, errNobody
			}
			return p.here.Ask(ctx, q)
		},
		func(bridge.Answer) live.Reply { return live.Reply{Answer: live.Text, By: p.g.Door} },
		func(r live.Reply) (bridge.Answer, error) {
			if r.Answer != live.Text {
				return bridge.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "the user does not want to answer"}
			}
			if n := slices.Index(form.Choices, r.Text); n >= 0 {
				return bridge.Answer{Text: q.Choices[n]}, nil
			}
			text, err := p.gate.Prompt(ctx, r.Text) // hides secrets, on record
			return bridge.Answer{Text: text, Freeform: true}, err
		})
}

// Elicit implements bridge.Person.
func (p person) Elicit(ctx context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	ask := func(ctx context.Context) (bridge.ElicitationAnswer, error) {
		if p.here == nil {
			return bridge.ElicitationAnswer{}, errNobody
		}
		return p.here.Elicit(ctx, e)
	}
	fields, err := approval.Fields(e.Schema)
	if err != nil {
		return ask(ctx) // it can be shown here or nowhere
	}
	form := &live.Form{Source: approval.Visible(e.Source), URL: e.URL, Fields: fields, Schema: e.Schema}
	if len(form.Schema) == 0 {
		form.Schema = json.RawMessage("{}") // a form without fields: yes or no
	}
	shown := p.question(e.Message, form)
	shown.Kind = "form"
	return first(ctx, p.inbox, shown, ask,
		func(a bridge.ElicitationAnswer) live.Reply {
			if a.Action == "accept" {
				a.Action = live.Text
			}
			return live.Reply{Answer: a.Action, By: p.g.Door}
		},
		func(r live.Reply) (bridge.ElicitationAnswer, error) {
			if r.Answer != live.Text {
				return bridge.ElicitationAnswer{Action: r.Answer}, nil
			}
			content, err := form.Content(r)
			if err != nil {
				return bridge.ElicitationAnswer{}, err
			}
			for name, v := range content {
				if text, ok := v.(string); ok {
					if content[name], err = p.gate.Prompt(ctx, text); err != nil {
						return bridge.ElicitationAnswer{}, err
					}
				}
			}
			return bridge.ElicitationAnswer{Action: "accept", Content: content}, nil
		})
}
