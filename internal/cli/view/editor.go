package view

import (
	"slices"
	"strings"
	"unicode"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// editor is a text under a person's hands, of one line or several. It draws
// nothing: see rows.
type editor struct {
	text    []rune
	pos     int    // of the cursor in it
	killed  []rune // what was cut last
	hint    string // shown below until the next key
	history []string
	at      int    // of the history; its length is the text itself
	draft   []rune // the text, while the history is looked at
	// complete returns what the text may become.
	complete func(text string) []string
}

// maxTyped bounds the text, in characters.
const maxTyped = 256 << 10

// edit does what a key asks for. sent is the text when it is to be sent; the
// editor is empty then. Interrupts and the end of input are not its business.
func (e *editor) edit(k key) (sent string, ok bool) {
	e.hint = ""
	switch k.code {
	case keyEnter:
		if e.pos == len(e.text) && strings.HasSuffix(string(e.text), `\`) {
			e.text[e.pos-1] = '\n' // a backslash at the end of a line: another one follows
			return "", false
		}
		return e.take(), true
	case keyText, keyPaste, keyNewline, keyYank:
		e.put(k)
	case keyTab:
		e.tab()
	case keyUp, keyDown:
		e.vertical(k.code)
	case keyBackspace, keyDelete, keyKillEnd, keyKillStart, keyKillWord, keyKillNextWord:
		e.cut(k.code)
	default:
		e.pos = e.target(k.code)
	}
	return "", false
}

// take empties the editor.
func (e *editor) take() string {
	typed := string(e.text)
	e.text, e.pos, e.draft, e.at = nil, 0, nil, len(e.history)
	return typed
}

// set replaces the text.
func (e *editor) set(text []rune) { e.text, e.pos = text, len(text) }

// remember adds to the history.
func (e *editor) remember(line string) {
	e.history = append(e.history, line)
	e.at = len(e.history)
}

func (e *editor) put(k key) {
	typed := k.text
	switch k.code {
	case keyNewline:
		typed = "\n"
	case keyYank:
		typed = string(e.killed)
	case keyPaste:
		typed = strings.ReplaceAll(strings.ReplaceAll(typed, "\r\n", "\n"), "\r", "\n")
	default: // the key's own text
	}
	runes := slices.DeleteFunc([]rune(typed), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
	if room := maxTyped - len(e.text); len(runes) > room {
		runes = runes[:room]
		e.hint = "only " + Count(maxTyped) + " characters fit; the rest was left out"
	}
	e.text = slices.Insert(e.text, e.pos, runes...)
	e.pos += len(runes)
}

// target is where a key moves the cursor to.
func (e *editor) target(code keyCode) int {
	to := e.pos
	switch code {
	case keyLeft:
		to--
	case keyRight:
		to++
	case keyHome:
		for to > 0 && e.text[to-1] != '\n' {
			to--
		}
	case keyEnd:
		for to < len(e.text) && e.text[to] != '\n' {
			to++
		}
	case keyWordLeft:
		for to > 0 && !isWord(e.text[to-1]) {
			to--
		}
		for to > 0 && isWord(e.text[to-1]) {
			to--
		}
	case keyWordRight:
		for to < len(e.text) && !isWord(e.text[to]) {
			to++
		}
		for to < len(e.text) && isWord(e.text[to]) {
			to++
		}
	default: // other keys move nothing
	}
	return min(max(0, to), len(e.text))
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

func (e *editor) cut(code keyCode) {
	from, to := e.pos, e.pos
	switch code {
	case keyBackspace:
		from = e.target(keyLeft)
	case keyDelete:
		to = e.target(keyRight)
	case keyKillEnd:
		if to = e.target(keyEnd); to == e.pos {
			to = e.target(keyRight) // the line break
		}
	case keyKillStart:
		from = e.target(keyHome)
	case keyKillWord:
		for from > 0 && unicode.IsSpace(e.text[from-1]) {
			from--
		}
		for from > 0 && !unicode.IsSpace(e.text[from-1]) {
			from--
		}
	case keyKillNextWord:
		to = e.target(keyWordRight)
	default: // other keys cut nothing
	}
	if code != keyBackspace && code != keyDelete && from < to {
		e.killed = slices.Clone(e.text[from:to])
	}
	e.text, e.pos = slices.Delete(e.text, from, to), from
}

// vertical moves between the lines of the text, and at its first and last
// line through the history.
func (e *editor) vertical(code keyCode) {
	start := e.target(keyHome)
	if code == keyUp && start > 0 {
		column := e.pos - start
		e.pos = start - 1
		e.pos = min(e.target(keyHome)+column, start-1)
		return
	}
	if end := e.target(keyEnd); code == keyDown && end < len(e.text) {
		column := e.pos - start
		e.pos = end + 1
		e.pos = min(end+1+column, e.target(keyEnd))
		return
	}
	to := e.at - 1
	if code == keyDown {
		to = e.at + 1
	}
	if to < 0 || to > len(e.history) {
		return
	}
	if e.at == len(e.history) {
		e.draft = e.text
	}
	e.at = to
	if to == len(e.history) {
		e.set(e.draft)
	} else {
		e.set([]rune(e.history[to]))
	}
}

// tab completes the text as far as the choices agree, and shows them if that is
// no further.
func (e *editor) tab() {
	if e.complete == nil || e.pos != len(e.text) {
		return
	}
	choices := e.complete(string(e.text))
	if len(choices) == 0 {
		return
	}
	common := choices[0]
	for _, c := range choices[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	switch {
	case len(choices) == 1:
		e.set([]rune(common + " "))
	case len(common) > len(string(e.text)):
		e.set([]rune(strings.ToValidUTF8(common, "")))
	default:
		const most = 12
		shown := choices[:min(len(choices), most)]
		e.hint = strings.Join(shown, "  ")
		if more := len(choices) - most; more > 0 {
			e.hint += "  and " + text.Plural(more, "other")
		}
	}
}

// maxRows is how many rows of a text are shown, those around the cursor.
const maxRows = 10

// rows are what is on the screen behind a prompt, and where the cursor stands
// among them.
func (e *editor) rows(prompt string, width int) (rows []string, y, x int) {
	indent := ""
	if cells(prompt) <= 4 {
		indent = strings.Repeat(" ", cells(prompt))
	}
	var row strings.Builder
	used := 0
	wrap := func() {
		rows = append(rows, row.String())
		row.Reset()
		row.WriteString(indent)
		used = len(indent)
	}
	add := func(r rune) {
		if used+runeWidth(r) > width && used > len(indent) {
			wrap()
		}
		row.WriteRune(r)
		used += runeWidth(r)
	}
	for _, r := range prompt {
		add(r)
	}
	for i := 0; ; i++ {
		if i == e.pos {
			y, x = len(rows), used
		}
		if i == len(e.text) {
			break
		}
		switch r := e.text[i]; {
		case r == '\n':
			wrap()
		case r == '\t':
			for range 4 {
				add(' ')
			}
		case unicode.IsPrint(r):
			add(r)
		}
	}
	rows = append(rows, row.String())
	if from := min(max(0, y-maxRows/2), max(0, len(rows)-maxRows)); len(rows) > maxRows {
		rows, y = rows[from:from+maxRows], y-from
	}
	if e.hint != "" {
		rows = append(rows, Fit(Harmless(e.hint), width))
	}
	return rows, y, x
}
