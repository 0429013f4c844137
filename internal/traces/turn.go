package traces

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Turn makes the spans of one turn of its events: the turn's own, one for each
// request to the model and one for each tool call. What the guard has decided
// becomes part of the call that it was about. A nil Turn does nothing.
type Turn struct {
	span *Span

	mu     sync.Mutex // the guard decides on goroutines of its own
	over   bool
	asked  time.Time // when the model was asked last
	model  string    // which it was
	calls  map[string]*toolCall
	agents map[string]*Span // the call as which a sub-agent works, by its id
	loose  []decision       // about calls that have not been seen yet
}

type toolCall struct {
	span    *Span
	name    string
	key     string // see keyOf
	decided bool
}

type decision struct {
	span *Span
	name string
	key  string // see keyOf
}

type turnKey struct{}

// About says whose turn it is.
type About struct {
	Session, Door, Model string
	Profile              bridge.Profile
}

// Turn starts a turn, below the span of ctx or that of the program which has
// started this one. The caller must call End.
func (t *Tracer) Turn(ctx context.Context, a About) (context.Context, *Turn) {
	if t == nil {
		return ctx, nil
	}
	ctx, span := t.startIn(ctx, t.settings.parent, opInvoke+" "+agentName, kindInternal, attr{keyOperation, opInvoke}, attr{keyAgentName, agentName})
	if span == nil {
		return ctx, nil
	}
	span.set(attr{keyConversation, a.Session}, attr{keyDoor, a.Door}, attr{keyProfile, string(a.Profile)}, attr{keyRequestModel, a.Model})
	turn := &Turn{span: span, model: a.Model, calls: map[string]*toolCall{}, agents: map[string]*Span{}}
	return context.WithValue(ctx, turnKey{}, turn), turn
}

// Workflow starts work that consists of several turns. The caller must call end.
func (t *Tracer) Workflow(ctx context.Context, name string) (_ context.Context, end func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	ctx, span := t.startIn(ctx, t.settings.parent, opFlow+" "+name, kindInternal, attr{keyOperation, opFlow}, attr{keyWorkflow, name})
	return ctx, func(err error) {
		if err != nil {
			span.fail(string(bridge.CodeOf(err)))
		}
		span.finish()
	}
}

// See takes note of an event.
func (t *Turn) See(ev bridge.Event) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := ev.(type) {
	case bridge.ModelCalled:
		t.asked, t.model = time.Now(), cmp.Or(e.Model, t.model)
	case bridge.UsageReported:
		t.answered(e)
	case bridge.ModelFailed:
		s := t.request(t.span, t.model, 0)
		s.fail(string(e.Error.Code))
		if e.Error.Status > 0 {
			s.set(attr{keyStatusCode, int64(e.Error.Status)})
		}
		s.finish()
	case bridge.ToolStarted:
		t.started(e.Call, e.AgentID)
	case bridge.ToolRequested:
		t.started(e.Call, "")
	case bridge.ToolFinished:
		if c := t.calls[e.CallID]; c != nil {
			if !e.OK {
				c.span.fail(cmp.Or(e.Code, "failed"))
			}
			c.span.finish()
		}
	default:
	}
}

// request starts the span of a request to the model that is over and took so long;
// 0 if that is not known.
func (t *Turn) request(above *Span, model string, took time.Duration) *Span {
	s := above.child(strings.TrimSpace(opChat+" "+model), kindClient, attr{keyOperation, opChat})
	s.set(attr{keyRequestModel, model})
	switch {
	case took > 0:
		s.start = s.start.Add(-took)
	case !t.asked.IsZero():
		s.start = t.asked
	}
	if s.start.Before(t.span.start) {
		s.start = t.span.start
	}
	return s
}

func (t *Turn) answered(e bridge.UsageReported) {
	u, call := e.Usage, e.Call
	if call == nil {
		call = &bridge.ModelCall{}
	}
	s := t.request(t.above(e.Parent, e.AgentID), cmp.Or(u.Model, t.model), call.Duration)
	s.set(attr{keyResponseModel, u.Model}, attr{keyResponseID, clip(call.ID)}, attr{keySubAgent, e.AgentID},
		attr{keyInputTokens, u.InputTokens}, attr{keyOutputTokens, u.OutputTokens}, attr{keyReasoningTokens, u.ReasoningTokens},
		attr{keyCacheRead, u.CacheRead}, attr{keyCacheWrite, u.CacheWrite}, attr{keyPremium, u.Premium}, attr{keyCredits, u.Credits},
		attr{keyFirstChunk, call.FirstToken.Seconds()})
	if e.Finish != "" {
		s.set(attr{keyFinish, []string{clip(e.Finish)}})
	}
	s.finish()
}

// started begins a tool call, once, with what the guard has said of it.
func (t *Turn) started(call bridge.ToolCall, agent string) {
	if call.ID == "" || t.calls[call.ID] != nil {
		return
	}
	s := t.above(call.Parent, agent).child(opTool+" "+call.Name, kindInternal, attr{keyOperation, opTool}, attr{keyToolName, call.Name}, attr{keyToolCall, call.ID}, attr{keyToolType, "function"})
	s.set(attr{keyServer, call.Server}, attr{keySubAgent, agent})
	c := &toolCall{span: s, name: call.Name, key: keyOf(call)}
	t.calls[call.ID] = c
	if i := slices.IndexFunc(t.loose, func(d decision) bool { return d.key == c.key }); i >= 0 {
		c.decide(t.loose[i].span)
		t.loose = slices.Delete(t.loose, i, i+1)
	}
}

// above is the span below which a sub-agent works, or the turn's.
func (t *Turn) above(parent, agent string) *Span {
	if c := t.calls[parent]; c != nil {
		t.agents[agent] = c.span
		return c.span
	}
	if s := t.agents[agent]; s != nil && agent != "" {
		return s
	}
	return t.span
}

// decide puts a decision of the guard below the call.
func (c *toolCall) decide(guard *Span) {
	c.decided = true
	guard.mu.Lock()
	guard.parent = c.span.span
	about := slices.DeleteFunc(slices.Clone(guard.attrs), func(a attr) bool { return a.key != keyVerdict && a.key != keyRule && a.key != keyAsked })
	start := guard.start
	guard.mu.Unlock()
	c.span.set(about...)
	c.span.mu.Lock()
	if start.Before(c.span.start) {
		c.span.start = start
	}
	c.span.mu.Unlock()
	guard.finishAt(guard.end)
}

// judged takes a decision of the guard and ends its span, at once or when the call
// is seen that it is about.
func (t *Turn) judged(s *Span, call bridge.ToolCall) (taken bool) {
	s.mu.Lock()
	s.end = time.Now()
	s.mu.Unlock()
	d := decision{s, call.Name, keyOf(call)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	for _, c := range t.calls {
		if !c.decided && c.key == d.key {
			c.decide(s)
			return true
		}
	}
	t.loose = append(t.loose, d)
	return true
}

// undecided is a call of that name of which the guard has not been heard.
func (t *Turn) undecided(name string) *toolCall {
	for _, c := range t.calls {
		if !c.decided && c.name == name {
			return c
		}
	}
	return nil
}

// keyOf tells calls apart by what they do: the guard is asked before a call has an
// id that both sides know.
func keyOf(call bridge.ToolCall) string {
	args, err := json.Marshal(call.Args)
	if err != nil {
		return call.Name
	}
	return call.Name + " " + string(args)
}

// End ends the turn and what is left of it.
func (t *Turn) End(err error) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.loose {
		if c := t.undecided(d.name); c != nil {
			c.decide(d.span) // its arguments were changed on the way
		} else {
			d.span.finishAt(d.span.end)
		}
	}
	t.loose, t.over = nil, true
	for _, c := range t.calls {
		c.span.mu.Lock()
		open := !c.span.ended
		c.span.mu.Unlock()
		if open {
			c.span.fail("unfinished")
			c.span.finish()
		}
	}
	if err != nil {
		t.span.fail(string(bridge.CodeOf(err)))
	}
	t.span.finish()
}
