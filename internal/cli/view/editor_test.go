package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// typed is what comes of keys: what was sent, and what is left with the cursor
// as a bar.
func typed(e *editor, bytes string) (sent []string, left string) {
	var d decoder
	for _, k := range d.add([]byte(bytes)) {
		if text, ok := e.edit(k); ok {
			sent = append(sent, text)
		}
	}
	return sent, string(e.text[:e.pos]) + "|" + string(e.text[e.pos:])
}

func TestEditing(t *testing.T) {
	const up, down, left, right, home, end, del = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[C", "\x1b[H", "\x1b[F", "\x1b[3~"
	for name, tt := range map[string]struct {
		keys string
		sent string // joined by /
		left string
	}{
		"plain":            {"héllo\r", "héllo", "|"},
		"line feed":        {"a\nb\r", "a/b", "|"},
		"backspace":        {"日本\x7f", "", "日|"},
		"in the middle":    {"ac" + left + "b", "", "ab|c"},
		"home and end":     {"bc" + home + "a" + end + "d", "", "abcd|"},
		"control keys":     {"bc\x01a\x05d\x02\x02\x06", "", "abc|d"},
		"delete":           {"abc" + home + del, "", "|bc"},
		"Ctrl-D in a text": {"abc" + home, "", "|abc"},
		"words":            {"one two three\x1bb\x1bb\x1bf!", "", "one two!| three"},
		"words by arrows":  {"one two\x1b[1;5D\x1b[1;5D\x1b[1;5C", "", "one| two"},
		"kill and yank":    {"one two\x17\x01\x19", "", "two|one "},
		"kill line":        {"abc" + left + left + "\x0b", "", "a|"},
		"kill to start":    {"abc" + left + "\x15", "", "|c"},
		"kill a word":      {"one two" + home + "\x1bd", "", "| two"},
		"two lines":        {"one\x1b\rtwo\r", "one\ntwo", "|"},
		"backslash":        {"one\\\rtwo\r", "one\ntwo", "|"},
		"up in lines":      {"one\x1b\rtwo" + up + "x", "", "onex|\ntwo"},
		"down in lines":    {"one\x1b\rtw" + up + home + right + right + down + "x", "", "one\ntwx|"},
		"history":          {up + up + up + "!\r", "first!", "|"},
		"history and back": {"draft" + up + up + down + down, "", "draft|"},
		"paste":            {"\x1b[200~one\r\ntwo\x03\x1b[31mred\tx\x1b[201~\r", "one\ntwo[31mred\tx", "|"},
		"escape alone":     {"a\x1b\x1bxb", "", "axb|"},
		"unknown sequence": {"a\x1b[15~b\x1bOPc", "", "abc|"},
		"control, unknown": {"a\x00\x1cb", "", "ab|"},
		"broken UTF-8":     {"a\xffb", "", "ab|"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &editor{history: []string{"first", "second"}, at: 2}
			sent, left := typed(e, tt.keys)
			if strings.Join(sent, "/") != tt.sent || left != tt.left {
				t.Errorf("%q: sent %q, left %q; want %q, %q", tt.keys, sent, left, tt.sent, tt.left)
			}
		})
	}
}

// A key may come in any number of reads.
func TestKeysInPieces(t *testing.T) {
	const keys = "a\x1b[1;5Dé\x1b[200~x\ry\x1b[201~\x1b[3~\x1bOH日\r"
	var whole decoder
	want := fmt.Sprint(whole.add([]byte(keys)))
	for cut := 1; cut < len(keys); cut++ {
		var d decoder
		var got []key
		for _, part := range []string{keys[:cut], keys[cut:]} {
			for _, k := range d.add([]byte(part)) {
				if last := len(got) - 1; last >= 0 && k.code == keyText && got[last].code == keyText {
					got[last].text += k.text
				} else {
					got = append(got, k)
				}
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("cut at %d: %v, want %v", cut, got, want)
		}
	}
}

func TestLongPastes(t *testing.T) {
	e := &editor{}
	typed(e, "\x1b[200~"+strings.Repeat("x", maxTyped+5)+pasteEnd)
	if len(e.text) != maxTyped || e.hint != "only 262 144 characters fit; the rest was left out" {
		t.Errorf("%d characters, %q", len(e.text), e.hint)
	}
	var d decoder
	for range 3 {
		d.add([]byte("\x1b[200~" + strings.Repeat("x", maxPaste)))
	}
	if len(d.paste) > maxPaste {
		t.Errorf("a paste of %d bytes is kept", len(d.paste))
	}
}

func TestCompletion(t *testing.T) {
	e := &editor{complete: func(text string) (all []string) {
		for _, c := range []string{"/model", "/more", "/new"} {
			if strings.HasPrefix(c, text) {
				all = append(all, c)
			}
		}
		return all
	}}
	for _, tt := range []struct{ keys, left, hint string }{
		{"/n\t", "/new |", ""}, {"\x15/m\t", "/mo|", ""}, {"\t", "/mo|", "/model  /more"}, {"d\t", "/model |", ""}, {"\x15x\t", "x|", ""},
	} {
		if _, left := typed(e, tt.keys); left != tt.left || e.hint != tt.hint {
			t.Errorf("%q: %q, %q; want %q, %q", tt.keys, left, e.hint, tt.left, tt.hint)
		}
	}
}

func TestRowsOfAText(t *testing.T) {
	for name, tt := range map[string]struct {
		keys string
		want []string
		y, x int
	}{
		"empty":     {"", []string{"> "}, 0, 2},
		"short":     {"abc", []string{"> abc"}, 0, 5},
		"full":      {"12345678", []string{"> 12345678"}, 0, 10},
		"wrapped":   {"123456789", []string{"> 12345678", "  9"}, 1, 3},
		"lines":     {"a\x1b\rb\x1b[A", []string{"> a", "  b"}, 0, 3},
		"wide":      {"日本日本日", []string{"> 日本日本", "  日"}, 1, 4},
		"invisible": {"a\u202eb", []string{"> ab"}, 0, 4},
		"tab":       {"\x1b[200~\tx\x1b[201~", []string{">     x"}, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			e := &editor{}
			typed(e, tt.keys)
			if rows, y, x := e.rows("> ", 10); !slices.Equal(rows, tt.want) || y != tt.y || x != tt.x {
				t.Errorf("%q at %d, %d; want %q at %d, %d", rows, y, x, tt.want, tt.y, tt.x)
			}
		})
	}
	e := &editor{}
	typed(e, strings.Repeat("x\x1b\r", 30)+"end")
	if rows, y, x := e.rows("> ", 20); len(rows) != maxRows || rows[y] != "  end" || x != 5 {
		t.Errorf("%q, %d, %d", rows, y, x)
	}
}

// What is written appears above what is typed, at every width and after the
// terminal has changed its size.
func TestTypingBelowTheLines(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		v := newVT(t)
		v.width = width
		c := testConsole(v, v, true, true)
		c.Width = func() int { return v.width }
		e := &editor{}
		c.prompt = func(width int, _ bool) ([]string, int, int) { return e.rows(mainPrompt, width) }
		c.refresh()
		typed(e, strings.Repeat("word ", 30)+"\x1b[H")
		c.show([]liveLine{{"● bash make", nil}, {"… waiting", nil}})
		c.Line("one")
		c.Answer("two\n")
		c.show(nil)
		rows, _, _ := e.rows(mainPrompt, width-1)
		want := "one\ntwo\n" + strings.TrimRight(strings.Join(rows, "\n"), " ")
		if got := v.String(); strings.ReplaceAll(got, " \n", "\n") != strings.ReplaceAll(want, " \n", "\n") {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
		if v.x != 2 || v.y != 2 {
			t.Errorf("%d columns: the cursor is at %d, %d", width, v.x, v.y)
		}
	}
}
