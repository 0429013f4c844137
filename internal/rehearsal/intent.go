package rehearsal

import (
	"regexp"
	"strings"
)

// intent is one simple request that a message makes.
type intent struct {
	kind kind
	path string // the file or directory
	text string // contents, command, pattern, question: what the kind is about
	old  string // what a replacement replaces
}

type kind int

const (
	createFile kind = iota
	readFile
	listFiles
	replaceText
	appendText
	deleteFile
	makeDir
	deleteDir
	runCommand
	runTests
	runBuild
	searchText
	findFiles
	askUser
	delegate
	callTool
	fetchURL
)

const (
	maxReadable = 16 << 10 // a longer message is not a simple request
	maxIntents  = 20
	maxPieces   = 200
)

// separator matches what may stand between two requests; whether it does is
// decided by what follows it.
var separator = regexp.MustCompile(`(?i)\s*\n\s*|\s*;\s*|,?\s+and\s+then\s+|,\s*then\s+|\.\s+(?:then|next|after\s+that|finally),?\s+|[.!]\s+|,?\s+and\s+|\s+then\s+`)

// readIntents finds the simple requests of a message, in order. offered says
// which tools may be asked for by name. A passage is a request of its own
// only if it can be read as one; otherwise it belongs to the one before it.
// all is false if part of the message could not be read.
func readIntents(text string, offered func(string) bool) (found []intent, all bool) {
	m := mask(text)
	if len(m.text) > maxReadable {
		return nil, false
	}
	r := reader{m: &m, offered: offered}
	all = true
	head, current, at := "", "", 0
	flush := func() {
		in, ok := r.read(current)
		if !ok {
			// What was added may be chatter after a whole request.
			all = all && pleasantry.MatchString(current)
			in, ok = r.read(head)
		}
		if ok && len(found) < maxIntents {
			found = append(found, in)
		}
	}
	cuts := separator.FindAllStringIndex(m.text, maxPieces)
	for i, cut := range append([][]int{{0, 0}}, cuts...) {
		end := len(m.text)
		if i < len(cuts) {
			end = cuts[i][0]
		}
		piece := m.text[cut[1]:end]
		newline := strings.Contains(m.text[cut[0]:cut[1]], "\n")
		_, quoted := m.only(piece)
		switch {
		case newline && strings.HasSuffix(current, ":") && !quoted:
			// "with:" and a line break: the rest is what to write.
			current = m.text[at:]
			flush()
			return found, all
		case i > 0 && !r.starts(piece) && (!newline || quoted):
			current = m.text[at:end]
			continue
		}
		flush()
		head, current, at = piece, piece, cut[1]
	}
	flush()
	return found, all
}

// reader reads single requests of one message.
type reader struct {
	m       *masked
	offered func(string) bool
}

func (r *reader) starts(s string) bool {
	_, ok := r.read(s)
	return ok
}

// politeness matches what people put before a request.
var politeness = regexp.MustCompile(`(?i)^(?:[-*•]\s+|\d+[.)]\s+|(?:please|now|then|and|also|next|first|finally|ok|okay|hey|hi|hello|just|(?:can|could|would|will)\s+you|i\s+want\s+you\s+to|i(?:'d|\s+would)\s+like\s+you\s+to|let's|go\s+ahead\s+and)[,:!]?\s+)+`)

var closing = regexp.MustCompile(`(?i)[\s,.!]*(?:\bplease|\bfor me|\bthank you|\bthanks)?[\s.!?]*$`)

// pleasantry matches passages that nobody expects an answer to.
var pleasantry = regexp.MustCompile(`(?i)^\W*(?:(?:hi|hello|hey|there|rehearsal|copilot|please|ok|okay|thanks|thank you|cheers|good (?:morning|day|evening))\W*)*$`)

// read reads s as one request.
func (r *reader) read(s string) (intent, bool) {
	s = politeness.ReplaceAllString(strings.TrimSpace(s), "")
	if s == "" {
		return intent{}, false
	}
	// Contents and commands keep their last full stop; names do not.
	short := closing.ReplaceAllString(s, "")
	for i := range rules {
		subject := short
		if rules[i].verbatim {
			subject = s
		}
		if g := rules[i].match(subject); g != nil {
			if in, ok := rules[i].make(r, g); ok {
				return in, true
			}
		}
	}
	return intent{}, false
}

// name returns a path that was written as token, and whether it looks like
// one: it was quoted, or it has a slash, an extension or a well-known name.
func (r *reader) name(token string) (string, bool) {
	if l, ok := r.m.only(token); ok {
		return l.inner, l.inner != "" && !strings.ContainsAny(l.inner, "\n\x00")
	}
	token = strings.TrimRight(token, ",:!?")
	if !strings.HasSuffix(token, "..") && token != "." {
		token = strings.TrimRight(token, ".")
	}
	return token, pathLike.MatchString(token) && !strings.Contains(token, "://")
}

var pathLike = regexp.MustCompile(`(?i)^(?:\.{1,2}|[^\s<>|"]*[/\\][^\s<>|"]*|[^\s<>|"]*\.[a-z_][a-z0-9_-]*|[^\s<>|"]+\.[0-9]|makefile|dockerfile|readme|license|changelog)$`)
