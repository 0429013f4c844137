package rehearsal

import (
	"context"
	"errors"
	"time"
)

// errEnded says that a step has ended the reply and nothing may follow.
var errEnded = errors.New("the reply has ended")

// sink is where a reply goes: a stream of events or one JSON document.
type sink interface {
	text(chunk string) error
	reasoning(chunk string) error
	call(index int, c Call) error
	raw(s string) error
	flush() error // sends headers and whatever is held back
	finish(reason string, u usageStep) error
	fail(e statusStep) error
	cut() error
}

// player plays one reply to one client. One goroutine uses it.
type player struct {
	ctx     context.Context // ends with the client's connection and with the server
	out     sink
	newID   func() string
	calls   int
	bytes   int // sent so far, for the default usage
	thought int
	reason  string
	usage   *usageStep
}

// play returns nil also when a step ended the reply as it was told to. After
// an error the reply is unfinished.
func (p *player) play(reply Reply, req *Request) error {
	for _, step := range reply {
		if step == nil {
			continue
		}
		switch err := step.play(p); {
		case errors.Is(err, errEnded):
			return nil
		case err != nil:
			return err
		}
	}
	if p.reason == "" {
		p.reason = "stop"
		if p.calls > 0 {
			p.reason = "tool_calls"
		}
	}
	u := usageStep{prompt: promptTokens(req), completion: tokens(p.bytes), reasoning: tokens(p.thought)}
	if p.usage != nil {
		u = *p.usage
	}
	return p.out.finish(p.reason, u)
}

func tokens(bytes int) int { return (bytes + 3) / 4 }

func promptTokens(req *Request) int {
	n := 0
	for i := range req.Messages {
		n += len(req.Messages[i].Content)
		for _, c := range req.Messages[i].ToolCalls {
			n += len(c.Name) + len(c.Arguments)
		}
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return tokens(n)
}

func (s textStep) play(p *player) error {
	for _, c := range s.chunks {
		p.bytes += len(c)
		if err := p.out.text(c); err != nil {
			return err
		}
	}
	return nil
}

func (s reasoningStep) play(p *player) error {
	for _, c := range s.chunks {
		p.bytes += len(c)
		p.thought += len(c)
		if err := p.out.reasoning(c); err != nil {
			return err
		}
	}
	return nil
}

func (s delayStep) play(p *player) error {
	t := time.NewTimer(s.d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

func (s waitStep) play(p *player) error {
	select {
	case <-s.ch:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

func (s callStep) play(p *player) error {
	id := s.id
	if id == "" {
		id = p.newID()
	}
	p.bytes += len(s.name) + len(s.args)
	p.calls++
	return p.out.call(p.calls-1, Call{ID: id, Name: s.name, Arguments: s.args})
}

func (s statusStep) play(p *player) error { return ended(p.out.fail(s)) }

func (s cutStep) play(p *player) error { return ended(p.out.cut()) }

func (s silenceStep) play(p *player) error {
	if err := p.out.flush(); err != nil {
		return err
	}
	<-p.ctx.Done()
	return context.Cause(p.ctx)
}

func (s usageStep) play(p *player) error {
	p.usage = &s
	return nil
}

func (s finishStep) play(p *player) error {
	p.reason = s.reason
	return nil
}

func (s malformedStep) play(p *player) error { return p.out.raw(s.raw) }

func ended(err error) error {
	if err != nil {
		return err
	}
	return errEnded
}
