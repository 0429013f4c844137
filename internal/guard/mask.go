package guard

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// Mask returns what hides secrets in the events of one turn: in the model's
// words and a tool's output also where a secret is spread over several
// pieces. What may be the beginning of one is held back until it is clear. It
// is for one goroutine.
func (g *Guard) Mask() bridge.Mask {
	m := &mask{guard: g, redactor: g.opts.Redactor, calls: map[string]bridge.ToolCall{}, theirs: g.opts.ClientTools, open: map[string]*maskedText{}, speaking: map[string]string{}}
	return m.pass
}

type mask struct {
	guard    *Guard
	redactor *redact.Redactor
	calls    map[string]bridge.ToolCall // that have begun, by id
	theirs   []string                   // the caller's own tools: it needs their arguments as they are
	open     map[string]*maskedText     // by message, thought or call
	order    []string                   // of open, oldest first
	speaking map[string]string          // the message of each agent
}

// maskedText is a text in progress, and an event that can carry more of it.
type maskedText struct {
	stream *redact.Stream
	as     func(text string) bridge.Event
}

func (m *mask) pass(ev bridge.Event, emit func(bridge.Event) bool) bool {
	switch e := ev.(type) {
	case bridge.TextDelta:
		if !m.flushPrevious("text "+e.Message, e.AgentID, emit) {
			return false
		}
		return m.add(m.speech, "text "+e.Message, e.Text, func(t string) bridge.Event { e.Text = t; return e }, emit)
	case bridge.ReasoningDelta:
		return m.add(m.speech, "thought "+e.ID, e.Text, func(t string) bridge.Event { e.Text = t; return e }, emit)
	case bridge.ToolProgress:
		return m.add(func() *redact.Redactor { return m.results(e.CallID, nil) }, "call "+e.CallID, e.Text, func(t string) bridge.Event { e.Text = t; return e }, emit)
	case bridge.MessageRetracted:
		m.drop("text " + e.Message)
	case bridge.MessageDone:
		if !m.flush("text "+e.Message, emit) {
			return false
		}
	case bridge.ToolFinished:
		if !m.flush("call "+e.CallID, emit) {
			return false
		}
	case bridge.ToolStarted:
		if !m.flush(m.speaking[e.AgentID], emit) {
			return false
		}
	case bridge.ToolRequested, bridge.PermissionAsked, bridge.InputAsked:
		// The text before it is complete, though its end event may come later.
		if !m.flush(m.speaking[""], emit) {
			return false
		}
	case bridge.TurnEnded:
		for len(m.order) > 0 {
			if !m.flush(m.order[0], emit) {
				return false
			}
		}
	default:
	}
	return emit(m.whole(ev))
}

// flushPrevious emits the held text of an agent's message before another message of
// the same agent begins, so that words stay in their order.
func (m *mask) flushPrevious(key, agent string, emit func(bridge.Event) bool) bool {
	last := m.speaking[agent]
	m.speaking[agent] = key
	return last == "" || last == key || m.flush(last, emit)
}

func (m *mask) speech() *redact.Redactor { return m.redactor }

// add passes on more of a text. by is asked when it begins.
func (m *mask) add(by func() *redact.Redactor, key, text string, as func(string) bridge.Event, emit func(bridge.Event) bool) bool {
	t := m.open[key]
	if t == nil {
		t = &maskedText{stream: by().NewStream()}
		m.open[key], m.order = t, append(m.order, key)
	}
	t.as = as
	if safe := t.stream.Write(text); safe != "" {
		return emit(as(safe))
	}
	return true
}

func (m *mask) flush(key string, emit func(bridge.Event) bool) bool {
	t := m.open[key]
	m.drop(key)
	if t == nil {
		return true
	}
	if rest := t.stream.Flush(); rest != "" {
		return emit(t.as(rest))
	}
	return true
}

func (m *mask) drop(key string) {
	delete(m.open, key)
	for i, k := range m.order {
		if k == key {
			m.order = append(m.order[:i], m.order[i+1:]...)
			return
		}
	}
}

// whole masks the texts of an event that come in one piece.
func (m *mask) whole(ev bridge.Event) bridge.Event {
	switch e := ev.(type) {
	case bridge.MessageDone:
		e.Text, e.Reasoning = m.text(e.Text), m.text(e.Reasoning)
		calls := make([]bridge.ToolCall, len(e.Calls))
		for i, c := range e.Calls {
			calls[i] = m.call(c)
		}
		if len(calls) > 0 {
			e.Calls = calls
		}
		return e
	case bridge.ToolStarted:
		m.calls[e.Call.ID] = e.Call
		e.Call = m.call(e.Call)
		return e
	case bridge.ToolFinished:
		results := m.results(e.CallID, e.Result)
		delete(m.calls, e.CallID)
		e.Result, _ = results.String(e.Result)
		e.Error, _ = results.String(e.Error)
		return e
	case bridge.PermissionAsked:
		e.Request = m.request(e.Request)
		return e
	case bridge.PermissionDecided:
		e.Decision.Reason = m.text(e.Decision.Reason)
		return e
	case bridge.InputAsked:
		e.Question.Text = m.text(e.Question.Text)
		return e
	case bridge.PlanChanged:
		e.Text, e.Entries = m.text(e.Text), slices.Clone(e.Entries)
		for i := range e.Entries {
			e.Entries[i].Text = m.text(e.Entries[i].Text)
		}
		return e
	case bridge.UserSaid:
		e.Text = m.text(e.Text)
		return e
	case bridge.Notice:
		e.Text = m.text(e.Text)
		return e
	case bridge.Failed:
		e.Error = m.failure(e.Error)
		return e
	case bridge.ModelFailed:
		e.Error = m.failure(e.Error)
		return e
	case bridge.Other:
		if e.Data != nil {
			e.Data = maskedData{m.redactor, e.Data}
		}
		return e
	default:
		return ev
	}
}

// results is what masks the output of a call, so far as it is known.
func (m *mask) results(call string, result any) *redact.Redactor {
	c, ok := m.calls[call]
	if !ok || m.guard.opts.Workspace == nil {
		return m.guard.results
	}
	return m.guard.redactorFor(context.Background(), c, result)
}

func (m *mask) text(s string) string {
	clean, _ := m.redactor.String(s)
	return clean
}

func (m *mask) call(c bridge.ToolCall) bridge.ToolCall {
	if c.Args != nil && !slices.Contains(m.theirs, c.Name) {
		c.Args, _ = m.redactor.Value(c.Args)
	}
	return c
}

func (m *mask) request(r bridge.PermissionRequest) bridge.PermissionRequest {
	r.Command, r.Intention, r.Diff = m.text(r.Command), m.text(r.Intention), m.text(r.Diff)
	for _, list := range []*[]string{&r.Segments, &r.URLs} {
		clean := make([]string, len(*list))
		for i, s := range *list {
			clean[i] = m.text(s)
		}
		if len(clean) > 0 {
			*list = clean
		}
	}
	if r.Args != nil {
		r.Args, _ = m.redactor.Value(r.Args)
	}
	return r
}

// failure is e with its cause told and masked: the cause is what would be
// printed otherwise.
func (m *mask) failure(e *bridge.Error) *bridge.Error {
	if e == nil {
		return nil
	}
	clean := *e
	if text := m.text(e.Error()); text != e.Error() {
		clean.Message, clean.Cause = text, nil
	}
	clean.Remedy, clean.Detail = m.text(e.Remedy), e.Detail.Hidden(m.text)
	return &clean
}

// maskedData is a payload that is masked when it is encoded.
type maskedData struct {
	redactor *redact.Redactor
	data     any
}

func (d maskedData) MarshalJSON() ([]byte, error) {
	clean, _ := d.redactor.Value(d.data)
	return json.Marshal(clean)
}
