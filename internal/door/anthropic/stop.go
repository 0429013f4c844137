package anthropic

import (
	"strings"
	"unicode/utf8"
)

// tokenBytes is more than a token of ordinary text in any script or
// programming language is long, on average. An answer that stays within its
// max_tokens by the model's own count is therefore never cut.
const tokenBytes = 6

// cutter ends a text that arrives in pieces at the first stop sequence, or
// where it is certainly longer than max_tokens. The runtime knows neither, so
// the door looks for both. What may turn out to be the beginning of a stop
// sequence is held back until that is known.
type cutter struct {
	stops []string
	left  int64 // bytes until the limit

	held    string
	reason  string // why the text has ended; "" while it has not
	matched string // the stop sequence
}

func newCutter(stops []string, maxTokens int64) cutter {
	return cutter{stops: stops, left: min(maxTokens, 1<<40) * tokenBytes}
}

// next returns what of the text so far may be shown now.
func (c *cutter) next(piece string) string {
	if c.reason != "" {
		return ""
	}
	text := piece
	if len(c.stops) > 0 {
		text = c.upToStop(c.held + piece)
	}
	if int64(len(text)) > c.left {
		c.reason, c.matched, c.held = stopMaxTokens, "", ""
		text = firstBytes(text, c.left)
	}
	c.left -= int64(len(text))
	return text
}

// rest returns what was held back, when no more of the message will come.
func (c *cutter) rest() string {
	held := c.held
	c.held = ""
	return held
}

// upToStop returns what comes before the stop sequence that is complete first,
// or before what may become one.
func (c *cutter) upToStop(text string) string {
	c.held = ""
	start, end := -1, len(text)+1
	for _, stop := range c.stops {
		i := strings.Index(text, stop)
		if i >= 0 && (i+len(stop) < end || i+len(stop) == end && i < start) {
			start, end = i, i+len(stop)
		}
	}
	if start >= 0 {
		c.reason, c.matched = stopSequence, text[start:end]
		return text[:start]
	}
	keep := len(text)
	for _, stop := range c.stops {
		for n := min(len(stop)-1, len(text)); n > len(text)-keep; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				keep = len(text) - n
				break
			}
		}
	}
	c.held = text[keep:]
	return text[:keep]
}

// firstBytes cuts text to at most n bytes, between characters.
func firstBytes(text string, n int64) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
