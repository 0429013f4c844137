package openai

import "strings"

// maxStops is how many stop sequences the API allows.
const maxStops = 4

// stopper cuts a text that arrives in pieces before the stop sequence that is
// complete first, wherever the pieces are split. The runtime knows no stop
// sequences, so the door looks for them. What may turn out to be the beginning
// of one is held back until that is known. The zero value lets everything
// through.
type stopper struct {
	stops []string
	held  string
	hit   bool
}

// next returns what of the text so far may be shown now.
func (s *stopper) next(piece string) string {
	if len(s.stops) == 0 {
		return piece
	}
	if s.hit {
		return ""
	}
	text := s.held + piece
	s.held = ""
	if cut := firstStop(text, s.stops); cut >= 0 {
		s.hit = true
		return text[:cut]
	}
	keep := len(text) - s.openEnd(text)
	s.held = text[keep:]
	return text[:keep]
}

// rest returns what was held back when no more will come.
func (s *stopper) rest() string {
	held := s.held
	s.held = ""
	return held
}

// firstStop is where the sequence begins that ends first, or -1.
func firstStop(text string, stops []string) int {
	start, end := -1, len(text)+1
	for _, stop := range stops {
		i := strings.Index(text, stop)
		if i < 0 {
			continue
		}
		if e := i + len(stop); e < end || e == end && i < start {
			start, end = i, e
		}
	}
	return start
}

// openEnd is the length of the longest end of text that a stop sequence
// begins with.
func (s *stopper) openEnd(text string) int {
	longest := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}
