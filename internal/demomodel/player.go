package demomodel

import (
	"context"
	"errors"
	"time"
)

// errEnded says that a step has ended the reply and nothing may follow.
var errEnded = errors.New("the reply has ended")

// player plays one reply to one client. One goroutine uses it.
type player struct {
	ctx     context.Context // ends with the client's connection and with the server
	out     *output
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
		if err := p.out.add(message{Content: &c}); err != nil {
			return err
		}
	}
	return nil
}

func (s reasoningStep) play(p *player) error {
	for _, c := range s.chunks {
		p.bytes += len(c)
		p.thought += len(c)
		if err := p.out.add(message{Reasoning: c}); err != nil {
			return err
		}
	}
	return nil
}

func (s delayStep) play(p *player) error {
	t := time.NewTimer(s.d)
	defer t.Stop()
	return waitFor(p, t.C)
}

func (s waitStep) play(p *player) error { return waitFor(p, s.ch) }

func waitFor[T any](p *player, ch <-chan T) error {
	select {
	case <-ch:
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
	index := p.calls
	p.bytes += len(s.name) + len(s.args)
	p.calls++
	c := wireCall{Index: &index, ID: id, Type: "function"}
	c.Function.Name, c.Function.Arguments = s.name, s.args
	return p.out.add(message{ToolCalls: []wireCall{c}})
}

func (s statusStep) play(p *player) error { return ended(p.out.fail(s)) }

func (s cutStep) play(p *player) error { return ended(p.out.cut()) }

func (s silenceStep) play(p *player) error {
	if err := p.out.write(""); err != nil {
		return err
	}
	return waitFor[struct{}](p, nil)
}

func (s usageStep) play(p *player) error {
	p.usage = &s
	return nil
}

func (s finishStep) play(p *player) error {
	p.reason = s.reason
	return nil
}

func (s malformedStep) play(p *player) error { return p.out.malformed(s.raw) }

func ended(err error) error {
	if err != nil {
		return err
	}
	return errEnded
}
