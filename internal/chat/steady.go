package chat

import (
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// steady turns the events of a turn into those of an answer. A reader of the
// answer never has to take anything back: when the model's stream broke and
// is tried again, what is repeated is left out, and if the new words are not
// those that were passed on, the answer fails. It is used by the goroutine
// that runs the turn.
type steady struct {
	whole bool // the reader wants each message in one piece
	shape *shape
	emit  func(bridge.Event)

	begun bool           // something was passed on
	early []bridge.Event // notices and figures from before that
	usage bridge.Usage
	text  strings.Builder // all that was passed on
	since int             // where the present message begins in text
	start int             // where its last piece does: one that was cut short goes on in the next
	msg   string          // id of that piece
	again bool            // it is being repeated
	redo  string          // what is still to be repeated
	think bool            // reasoning was passed on
	mute  bool            // it is being repeated, too
	piece strings.Builder // with whole: the piece so far
	ideas []bridge.Event  // with whole: reasoning so far
	tools map[string]bool // calls of the client's tools: not shown as activity
}

func newSteady(whole bool, sh *shape, emit func(bridge.Event)) *steady {
	return &steady{whole: whole, shape: sh, emit: emit, tools: map[string]bool{}}
}

// pass hands an event on; the first one takes the early ones along.
func (s *steady) pass(ev bridge.Event) {
	if !s.begun {
		s.begun = true
		for _, e := range s.early {
			s.emit(e)
		}
		s.early = nil
	}
	s.emit(ev)
}

// aside hands on what says nothing about the success of the turn. Before the
// first real event it waits: an answer that fails at once has no events.
func (s *steady) aside(ev bridge.Event) {
	if s.begun {
		s.emit(ev)
		return
	}
	s.early = append(s.early, ev)
}

// see takes an event of the turn. The error ends the answer.
func (s *steady) see(ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.TextDelta:
		if e.AgentID == "" {
			return s.delta(e)
		}
	case bridge.ReasoningDelta:
		if e.AgentID == "" {
			s.reason(e)
		}
	case bridge.MessageRetracted:
		s.retract(e)
	case bridge.MessageDone:
		if e.AgentID == "" {
			return s.done(e)
		}
	case bridge.ToolStarted:
		if s.shape.agent && !s.shape.names[e.Call.Name] {
			s.pass(e)
		}
		s.tools[e.Call.ID] = s.shape.names[e.Call.Name]
	case bridge.ToolProgress:
		if s.shape.agent && !s.tools[e.CallID] {
			s.pass(e)
		}
	case bridge.ToolFinished:
		if s.shape.agent && !s.tools[e.CallID] {
			s.pass(e)
		}
	case bridge.PermissionAsked, bridge.PermissionDecided:
		s.pass(e)
	case bridge.Notice:
		s.aside(e)
	case bridge.UsageReported:
		s.usage = s.usage.Add(e.Usage)
		s.aside(e)
	default:
	}
	return nil
}

func (s *steady) say(text string) {
	if text == "" {
		return
	}
	s.text.WriteString(text)
	s.pass(bridge.TextDelta{Message: s.msg, Text: text})
}

func (s *steady) delta(e bridge.TextDelta) error {
	if e.Message != s.msg {
		s.turnTo(e.Message)
	}
	if s.whole {
		s.piece.WriteString(e.Text)
		return nil
	}
	if s.redo == "" {
		s.say(e.Text)
		return nil
	}
	n := min(len(s.redo), len(e.Text))
	if s.redo[:n] != e.Text[:n] {
		return errBroken()
	}
	s.redo = s.redo[n:]
	s.say(e.Text[n:])
	return nil
}

// turnTo begins a piece: the first of a message, the rest of one that was cut
// short, or one that is repeated.
func (s *steady) turnTo(id string) {
	if !s.again {
		if s.msg != "" {
			s.flushPiece()
		}
		s.start = s.text.Len()
	}
	s.msg = id
}

func errBroken() error {
	return &bridge.Error{Code: bridge.CodeProvider, Message: "the model's stream broke and could not be continued",
		Remedy: "send the request again; without streaming a broken stream is repeated unseen"}
}

func (s *steady) reason(e bridge.ReasoningDelta) {
	switch {
	case s.whole:
		s.ideas = append(s.ideas, e)
	case !s.mute:
		s.think = true
		s.pass(e)
	}
}

func (s *steady) retract(e bridge.MessageRetracted) {
	s.mute = s.think
	s.ideas = nil
	if e.Message != s.msg {
		return
	}
	s.piece.Reset()
	s.again, s.redo = true, s.text.String()[s.start:]
}

// flushPiece hands on a piece that was waited for.
func (s *steady) flushPiece() {
	for _, r := range s.ideas {
		s.pass(r)
	}
	s.ideas = nil
	text := s.piece.String()
	s.piece.Reset()
	s.say(text)
}

func (s *steady) done(e bridge.MessageDone) error {
	if e.Message != s.msg {
		s.turnTo(e.Message)
	}
	if s.whole {
		s.piece.Reset()
		s.piece.WriteString(e.Text)
		s.flushPiece()
	} else {
		rest, ok := strings.CutPrefix(e.Text, s.text.String()[s.start:])
		if !ok && s.again {
			return errBroken()
		}
		if ok {
			s.say(rest)
		}
	}
	e.Text = s.text.String()[s.since:]
	e.Calls = s.shape.own(e.Calls)
	s.since, s.start = s.text.Len(), s.text.Len()
	s.msg, s.again, s.redo, s.mute, s.think = "", false, "", false, false
	if e.Text != "" || len(e.Calls) > 0 || e.Reasoning != "" {
		s.pass(e)
	}
	return nil
}
