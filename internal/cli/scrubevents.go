package cli

import "github.com/copilot-bridge/copilot-bridge/internal/bridge"

// eventScrubber finds secrets that are spread over several pieces of text,
// which nobody finds who sees one piece at a time. It holds back what may be
// the beginning of one until it is clear. Whole events are scrubbed when they
// are written.
type eventScrubber struct {
	scrub *scrubber
	held  map[string]piece // by stream
}

// piece is a beginning that is held back, in an event that can carry it.
type piece struct {
	text string
	as   func(text string) bridge.Event
}

func newEventScrubber(s *scrubber) *eventScrubber {
	return &eventScrubber{scrub: s, held: map[string]piece{}}
}

// pass hands ev on, with what was held back before it.
func (s *eventScrubber) pass(ev bridge.Event, emit func(bridge.Event)) {
	switch e := ev.(type) {
	case bridge.TextDelta:
		s.add("text "+e.Message, e.Text, func(t string) bridge.Event { e.Text = t; return e }, emit)
	case bridge.ReasoningDelta:
		s.add("reasoning "+e.ID, e.Text, func(t string) bridge.Event { e.Text = t; return e }, emit)
	case bridge.ToolProgress:
		s.add("tool "+e.CallID, e.Text, func(t string) bridge.Event { e.Text = t; return e }, emit)
	case bridge.MessageDone:
		s.flush("text "+e.Message, emit)
		emit(ev)
	case bridge.MessageRetracted:
		delete(s.held, "text "+e.Message)
		emit(ev)
	case bridge.ToolFinished:
		s.flush("tool "+e.CallID, emit)
		emit(ev)
	case bridge.TurnEnded:
		for key := range s.held {
			s.flush(key, emit)
		}
		emit(ev)
	default:
		emit(ev)
	}
}

func (s *eventScrubber) add(key, text string, as func(string) bridge.Event, emit func(bridge.Event)) {
	text = s.scrub.text(s.held[key].text + text)
	n := s.scrub.heldBack(text)
	safe, rest := text[:len(text)-n], text[len(text)-n:]
	if rest == "" {
		delete(s.held, key)
	} else {
		s.held[key] = piece{rest, as}
	}
	if safe != "" {
		emit(as(safe))
	}
}

func (s *eventScrubber) flush(key string, emit func(bridge.Event)) {
	if p, ok := s.held[key]; ok {
		delete(s.held, key)
		emit(p.as(p.text))
	}
}
