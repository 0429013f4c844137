package acp

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// script is a Service whose turns are what a test makes of them.
type script struct {
	models []bridge.Model
	notice string
	stored []bridge.SessionInfo
	past   []bridge.Event // the history of every session
	login  error
	turn   func(ctx context.Context, s *played, p bridge.Prompt, yield func(bridge.Event, error) bool)

	mu      sync.Mutex
	open    int // sessions that are
	opened  []Opening
	deleted []string
}

func (s *script) Open(_ context.Context, o Opening) (Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.opened = append(s.opened, o)
	return &played{script: s, id: fmt.Sprintf("s%d", len(s.opened)), opening: o}, nil
}

func (s *script) Resume(ctx context.Context, id string, o Opening) (Session, error) {
	for _, i := range s.stored {
		if i.ID == id {
			r, err := s.Open(ctx, o)
			if p, ok := r.(*played); ok {
				p.id = id
			}
			return r, err
		}
	}
	return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no session " + id}
}

func (s *script) Sessions(context.Context) ([]bridge.SessionInfo, error) {
	return append([]bridge.SessionInfo(nil), s.stored...), nil
}

func (s *script) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, id)
	return nil
}

func (s *script) Models(context.Context) ([]bridge.Model, error) { return s.models, nil }
func (s *script) Login(context.Context) error                    { return s.login }

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// played is a session of a script.
type played struct {
	*script
	id      string
	opening Opening

	mu      sync.Mutex
	prompts []bridge.Prompt
	set     []string // models and efforts that were set
	mode    string
}

func (p *played) ID() string { return p.id }

func (p *played) Opened() bridge.SessionOpened {
	return bridge.SessionOpened{Session: p.id, Notice: p.notice}
}

func (p *played) Send(ctx context.Context, prompt bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		p.mu.Lock()
		p.prompts = append(p.prompts, prompt)
		p.mu.Unlock()
		p.turn(ctx, p, prompt, yield)
	}
}

func (p *played) SetModel(_ context.Context, model, effort string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set = append(p.set, model+"/"+effort)
	return nil
}

func (p *played) Mode() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

func (p *played) SetMode(_ context.Context, mode string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
	return nil
}

func (p *played) History(context.Context) ([]bridge.Event, error) { return p.past, nil }

func (p *played) Commands(context.Context) ([]bridge.Command, error) {
	return []bridge.Command{{Name: "context", Description: "Show it", Builtin: true}, {Name: "plan", Description: "Plan", Hint: "prompt", Builtin: true},
		{Name: "allow-all", Description: "Never", Builtin: true}, {Name: "from-the-future", Builtin: true}, {Name: "deploy", Description: "A skill"}}, nil
}

func (p *played) Invoke(_ context.Context, name, input string) (bridge.CommandResult, error) {
	switch name {
	case "context":
		return bridge.CommandResult{Text: "much room"}, nil
	case "plan":
		return bridge.CommandResult{Mode: bridge.ModePlan, Prompt: input}, nil
	case "deploy":
		return bridge.CommandResult{}, &bridge.Error{Code: bridge.CodeUnsupported, Message: "/deploy needs Copilot's own terminal"}
	}
	return bridge.CommandResult{}, fmt.Errorf("the command %s was not offered", name)
}

func (p *played) TitleOf(prompt string) string {
	line, _, _ := strings.Cut(prompt, "\n")
	return line
}

func (p *played) Consult(ctx context.Context, path string, read func(context.Context) (string, error)) (string, error) {
	if path == "/secret" {
		return "", &bridge.Error{Code: bridge.CodeDenied, Message: "it may not be read"}
	}
	return read(ctx)
}

func (p *played) Close(context.Context) error {
	p.script.mu.Lock()
	defer p.script.mu.Unlock()
	p.open--
	return nil
}

// plays makes a turn of events; with an error it ends as the engine's does.
func plays(err error, events ...bridge.Event) func(context.Context, *played, bridge.Prompt, func(bridge.Event, error) bool) {
	return func(_ context.Context, _ *played, _ bridge.Prompt, yield func(bridge.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if err == nil {
			yield(bridge.TurnEnded{Reason: bridge.EndDone, Usage: bridge.Usage{InputTokens: 3, OutputTokens: 4}}, nil)
			return
		}
		e := bridge.AsError(err)
		_ = yield(bridge.Failed{Error: e}, nil) && yield(bridge.TurnEnded{Reason: bridge.EndFailed}, nil) && yield(nil, err)
	}
}
