package editor

import "strings"

// Between returns the edits that make one text of another: one that replaces
// all lines from the first to the last that differ, none if they are the same.
// Lines end with LF or CRLF.
func Between(before, after string) []TextEdit {
	if before == after {
		return nil
	}
	old, made := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	head := 0
	for head < min(len(old), len(made)) && old[head] == made[head] {
		head++
	}
	tail := 0
	for tail < min(len(old), len(made))-head && old[len(old)-1-tail] == made[len(made)-1-tail] {
		tail++
	}
	// SplitAfter leaves an empty last line behind a final newline, as a document
	// does, so the place where a line begins is always one of the document.
	e := TextEdit{Start: Position{Line: head}, Text: strings.Join(made[head:len(made)-tail], "")}
	if e.End = (Position{Line: len(old) - tail}); tail == 0 {
		e.End = end(old)
	}
	return []TextEdit{e}
}

// end is the place behind the last character.
func end(lines []string) Position {
	last := lines[len(lines)-1]
	return Position{Line: len(lines) - 1, Character: units(last)}
}

// units counts a text as VS Code does.
func units(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}
