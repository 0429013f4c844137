package view

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		columns          int
	}{
		{"fits", "  → look here", "  → look here", 20},
		{"behind the mark", "copilot-bridge: no\n  → look at the places named", "copilot-bridge: no\n  → look at the\n    places named", 20},
		{"below the column", "✗ state      the directory cannot be written to", "✗ state      the directory\n             cannot be\n             written to", 28},
		{"indented", "    one two three four five", "    one two three\n    four five", 20},
		{"a long word stays", "see /a/very/long/path/that/does/not/fit now", "see\n/a/very/long/path/that/does/not/fit\nnow", 20},
		{"colours take no room", "\x1b[31mone two three four\x1b[0m five", "\x1b[31mone two three four\x1b[0m\nfive", 20},
		{"wide runes", "漢字漢字漢字 漢字漢字漢字", "漢字漢字漢字\n漢字漢字漢字", 20},
		{"no room at all", "one two three four five", "one two three four five", 10},
		{"nothing", "", "", 20},
	} {
		if got := Wrap(tt.text, tt.columns); got != tt.want {
			t.Errorf("%s:\n%s\nnot\n%s", tt.name, got, tt.want)
		}
	}
}

// At each width the words are those of the text, and no line is too long.
func TestWrapKeepsTheWords(t *testing.T) {
	const text = "copilot-bridge: the provider at http://127.0.0.1:8788/v1 answered 400 Bad Request: max_tokens is too large\n" +
		"  → check COPILOT_BYOK_MODEL and COPILOT_BYOK_WIRE_API, and what was sent: the provider does not accept the request\n" +
		"✓ runtime    /home/someone/.copilot-bridge/runtime, installed (native runtime, reports version 1.0.85)"
	for _, columns := range []int{60, 80, 120} {
		got := Wrap(text, columns)
		if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("%d: %s", columns, got)
		}
		for line := range strings.Lines(got) {
			if n := cells(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%d: a line of %d: %s", columns, n, line)
			}
		}
	}
}

func TestReflow(t *testing.T) {
	if got, want := Reflow("One\ntwo.\n\nThree:\n  a\n  b\nfour\nfive"), "One two.\n\nThree:\n  a\n  b\nfour five"; got != want {
		t.Errorf("%q", got)
	}
}

func TestAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"Correct this.": "correct this", "see `x`": "see `x`", "Set A. Then set B.": "set A. Then set B.", "COPILOT_X is set": "COPILOT_X is set", "": "",
	} {
		if got := advice(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}
