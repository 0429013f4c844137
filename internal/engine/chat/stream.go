package chat

import (
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// streamDeduper turns the events of a turn into those of an answer. A stream
// that breaks is repeated by the runtime: the repeated part is left out, so that
// a reader of the answer never has to take anything back. If the new text
// differs from the old one the answer fails. It belongs to the goroutine that
// runs the turn.
type streamDeduper struct {
	whole bool // the reader wants each message in one piece
	limit int  // bytes of text and reasoning
	shape *shape
	emit  func(bridge.Event)

	begun        bool           // an event was passed on
	early        []bridge.Event // notices and usage from before that
	usage        bridge.Usage
	text         strings.Builder // all text that was passed on
	messageStart int             // where the current message begins in text
	pieceStart   int             // where its last piece begins: a message that is cut short continues in another piece
	pieceID      string          // the runtime's id of that piece
	repeating    bool            // the piece is being repeated
	toRepeat     string          // the part of it that has not come again
	reasoned     bool            // reasoning was passed on
	mute         bool            // reasoning is being repeated
	piece        strings.Builder // with whole: the piece so far
	reasoning    []bridge.Event  // with whole: reasoning so far
	reasonBytes  int             // of reasoning, passed on and kept
	clientCalls  map[string]bool // calls of the client's tools: not shown as activity
}

const (
	// tokenBytes is longer than the average token of text in any script or
	// programming language: an answer within its bound by the model's own count
	// is not cut.
	tokenBytes = 6
	// chatMost and agentMost bound an answer, in bytes. No model writes as much
	// in one answer; an agent writes many messages. Each byte costs the runtime
	// ten or more.
	chatMost  = 1 << 20
	agentMost = 4 << 20
)

// errLimit ends the turn of an answer that has reached its limit. The answer
// itself succeeded.
var errLimit = &bridge.Error{Code: bridge.CodeCanceled, Message: "the answer has reached its limit"}

func newStreamDeduper(c *bridge.Chat, sh *shape, emit func(bridge.Event)) *streamDeduper {
	s := &streamDeduper{whole: c.Whole, limit: chatMost, shape: sh, emit: emit, clientCalls: map[string]bool{}}
	if sh.agent {
		s.limit = agentMost
	}
	if c.MaxTokens > 0 && c.MaxTokens < int64(s.limit/tokenBytes) {
		s.limit = int(c.MaxTokens) * tokenBytes
	}
	return s
}

// fit cuts a text to the room that the answer has, and reports whether all of it
// fits.
func (s *streamDeduper) fit(text string) (string, bool) {
	room := max(0, s.limit-s.text.Len()-s.piece.Len()-s.reasonBytes)
	if len(text) <= room {
		return text, true
	}
	for room > 0 && !utf8.RuneStart(text[room]) {
		room--
	}
	return text[:room], false
}

// cut ends an answer that has reached its limit, as a model with a limit does.
func (s *streamDeduper) cut() error {
	s.flushPiece()
	s.pass(bridge.MessageDone{Message: s.pieceID, Text: s.text.String()[s.messageStart:]})
	s.pass(bridge.UsageReported{Finish: "length"})
	return errLimit
}

// pass hands an event on; the first one takes the early ones along.
func (s *streamDeduper) pass(ev bridge.Event) {
	if !s.begun {
		s.begun = true
		for _, e := range s.early {
			s.emit(e)
		}
		s.early = nil
	}
	s.emit(ev)
}

// passEarly hands on an event that does not show whether the turn succeeds.
// Before the first other event it waits: an answer that fails at once has no
// events.
func (s *streamDeduper) passEarly(ev bridge.Event) {
	if s.begun {
		s.emit(ev)
		return
	}
	s.early = append(s.early, ev)
}

// see takes an event of the turn. The error ends the answer.
func (s *streamDeduper) see(ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.TextDelta:
		if e.AgentID == "" {
			return s.delta(e)
		}
	case bridge.ReasoningDelta:
		if e.AgentID == "" {
			return s.reason(e)
		}
	case bridge.MessageRetracted:
		s.retract(e)
	case bridge.MessageDone:
		if e.AgentID == "" {
			return s.done(e)
		}
	case bridge.ToolStarted:
		if s.shape.agent && !s.shape.tools.has(e.Call.Name) {
			s.pass(e)
		}
		s.clientCalls[e.Call.ID] = s.shape.tools.has(e.Call.Name)
	case bridge.ToolProgress:
		if s.shape.agent && !s.clientCalls[e.CallID] {
			s.pass(e)
		}
	case bridge.ToolFinished:
		if s.shape.agent && !s.clientCalls[e.CallID] {
			s.pass(e)
		}
	case bridge.PermissionAsked, bridge.PermissionDecided:
		s.pass(e)
	case bridge.Notice:
		s.passEarly(e)
	case bridge.UsageReported:
		s.usage = s.usage.Add(e.Usage)
		s.passEarly(e)
	default:
	}
	return nil
}

func (s *streamDeduper) sendText(text string) {
	if text == "" {
		return
	}
	s.text.WriteString(text)
	s.pass(bridge.TextDelta{Message: s.pieceID, Text: text})
}

func (s *streamDeduper) delta(e bridge.TextDelta) error {
	if e.Message != s.pieceID {
		s.startPiece(e.Message)
	}
	n := min(len(s.toRepeat), len(e.Text))
	if s.toRepeat[:n] != e.Text[:n] {
		return errBroken()
	}
	s.toRepeat = s.toRepeat[n:]
	text, all := s.fit(e.Text[n:])
	if s.whole {
		s.piece.WriteString(text)
	} else {
		s.sendText(text)
	}
	if !all {
		return s.cut()
	}
	return nil
}

// startPiece begins a piece: the first of a message, the rest of a message that
// was cut short, or a repeated one.
func (s *streamDeduper) startPiece(id string) {
	if !s.repeating {
		if s.pieceID != "" {
			s.flushPiece()
		}
		s.pieceStart = s.text.Len()
	}
	s.pieceID = id
}

func errBroken() error {
	return &bridge.Error{Code: bridge.CodeProvider, Message: "the model's stream broke and could not be continued",
		Remedy: "send the request again; without streaming a broken stream is repeated unseen"}
}

func (s *streamDeduper) reason(e bridge.ReasoningDelta) error {
	if s.mute && !s.whole {
		return nil
	}
	text, all := s.fit(e.Text)
	e.Text = text
	s.reasonBytes += len(text)
	if s.whole {
		s.reasoning = append(s.reasoning, e)
	} else {
		s.reasoned = true
		s.pass(e)
	}
	if !all {
		return s.cut()
	}
	return nil
}

func (s *streamDeduper) retract(e bridge.MessageRetracted) {
	s.mute = s.reasoned
	for _, i := range s.reasoning {
		if r, ok := i.(bridge.ReasoningDelta); ok {
			s.reasonBytes -= len(r.Text)
		}
	}
	s.reasoning = nil
	if e.Message != s.pieceID {
		return
	}
	s.piece.Reset()
	s.repeating, s.toRepeat = true, s.text.String()[s.pieceStart:]
}

// flushPiece hands on a piece that was collected.
func (s *streamDeduper) flushPiece() {
	for _, r := range s.reasoning {
		s.pass(r)
	}
	s.reasoning = nil
	text := s.piece.String()
	s.piece.Reset()
	s.sendText(text)
}

func (s *streamDeduper) done(e bridge.MessageDone) error {
	if e.Message != s.pieceID {
		s.startPiece(e.Message)
	}
	all := true
	if s.whole {
		s.piece.Reset()
		e.Text, all = s.fit(e.Text)
		s.piece.WriteString(e.Text)
		s.flushPiece()
	} else {
		rest, ok := strings.CutPrefix(e.Text, s.text.String()[s.pieceStart:])
		if !ok && s.repeating {
			return errBroken()
		}
		if ok {
			rest, all = s.fit(rest)
			s.sendText(rest)
		}
	}
	if !all {
		return s.cut()
	}
	e.Text = s.text.String()[s.messageStart:]
	e.Calls = s.shape.tools.calls(e.Calls)
	s.messageStart, s.pieceStart = s.text.Len(), s.text.Len()
	s.pieceID, s.repeating, s.toRepeat, s.mute, s.reasoned = "", false, "", false, false
	if e.Text != "" || len(e.Calls) > 0 || e.Reasoning != "" {
		s.pass(e)
	}
	return nil
}
