package view

import (
	"strings"
	"unicode"
)

// Wrap breaks the lines of a text between words, so that a terminal of so many
// columns cuts none. What continues a line stands below its text: behind its
// mark, or in the last column of a list. A word that is too long stays whole.
func Wrap(text string, columns int) string {
	if columns < 20 {
		return text // no room for words
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = wrapLine(line, columns)
	}
	return strings.Join(lines, "\n")
}

func wrapLine(line string, columns int) string {
	if cells(line) <= columns {
		return line
	}
	hang := hanging(line)
	if hang > columns/2 {
		hang = min(4, columns/2)
	}
	var b strings.Builder
	used := 0
	for i, word := range words(line) {
		if i > 0 && used > hang && used+cells(strings.TrimRight(word, " ")) > columns {
			b.WriteString("\n" + strings.Repeat(" ", hang))
			used = hang
		}
		b.WriteString(word)
		used += cells(word)
	}
	out := strings.Split(b.String(), "\n")
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return strings.Join(out, "\n")
}

// words splits a line behind its spaces. The spaces before the first word
// belong to it.
func words(line string) (out []string) {
	start, seen, space := 0, false, false
	for i, r := range line {
		if r != ' ' && space && seen {
			out, start = append(out, line[start:i]), i
		}
		space = r == ' '
		seen = seen || !space
	}
	return append(out, line[start:])
}

// hanging is the column in which a line's text begins: behind spaces and a mark,
// and behind the last gap of two spaces or more, as in a list.
func hanging(line string) int {
	bare := []rune(escape.ReplaceAllString(line, ""))
	text := strings.TrimLeft(string(bare), " ")
	indent := len(bare) - len([]rune(text))
	if mark := []rune(text); len(mark) > 1 && mark[1] == ' ' && !unicode.IsLetter(mark[0]) {
		indent += 2
	}
	if gap := strings.LastIndex(string(bare), "  "); gap >= 0 {
		return max(indent, len([]rune(string(bare)[:gap]))+2)
	}
	return indent
}

// cells is how many columns a text takes, without its colours.
func cells(text string) (n int) {
	for _, r := range escape.ReplaceAllString(text, "") {
		n += runeWidth(r)
	}
	return n
}

// Reflow joins the lines of a paragraph, which Wrap then breaks where the
// terminal ends. Lines that begin with a space stay.
func Reflow(text string) string {
	var b strings.Builder
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		b.WriteString(line)
		switch {
		case i == len(lines)-1:
		case line == "" || lines[i+1] == "" || line[0] == ' ' || lines[i+1][0] == ' ':
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// advice is what to do about something, in one style: after an arrow it begins
// with a small letter and needs no full stop.
func advice(remedy string) string {
	remedy = Harmless(remedy)
	if one := strings.TrimSuffix(remedy, "."); !strings.Contains(one, ". ") {
		remedy = one
	}
	word, _, _ := strings.Cut(remedy, " ")
	if word != "" && strings.ToLower(word[1:]) == word[1:] && word != "Copilot" {
		remedy = strings.ToLower(word[:1]) + remedy[1:]
	}
	return remedy
}
