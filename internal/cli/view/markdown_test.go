package view

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func rendered(text string, width int, colour bool) string {
	m := &markdown{s: style{colour}, width: func() int { return width }}
	return m.add(text) + m.end()
}

func TestMarkdown(t *testing.T) {
	for name, tt := range map[string]struct{ in, plain, colour string }{
		"heading":      {"## One *two*\n", "## One *two*\n", "\x1b[1mOne \x1b[0m\x1b[1;3mtwo\x1b[0m\n"},
		"bold":         {"a **b c** d __e__\n", "a b c d e\n", "a \x1b[1mb c\x1b[0m d \x1b[1me\x1b[0m\n"},
		"not bold":     {"a ** b ** c 2*3*4=24 x_y_z **open\n", "a ** b ** c 2*3*4=24 x_y_z **open\n", ""},
		"italic":       {"*a* _b_ *c **d** e*\n", "a b c d e\n", ""},
		"code":         {"run `a **b**` or ``c`d``\n", "run `a **b**` or `c`d`\n", "run \x1b[36ma **b**\x1b[0m or \x1b[36mc`d\x1b[0m\n"},
		"link":         {"see [the docs](https://x.example/a) and <https://y.example>\n", "see the docs (https://x.example/a) and\nhttps://y.example\n", ""},
		"same link":    {"[https://x.example](https://x.example)\n", "https://x.example\n", "\x1b[4mhttps://x.example\x1b[0m\n"},
		"escapes":      {`\*a\* \_b\_` + "\n", "*a* _b_\n", ""},
		"list":         {"- one\n  * two\n1. three\n", "• one\n  • two\n1. three\n", ""},
		"hanging":      {"- one two three four five six seven eight nine ten eleven\n", "• one two three four five six seven eight\n  nine ten eleven\n", ""},
		"quote":        {"> said\n", "│ said\n", "\x1b[2m│\x1b[0m \x1b[2msaid\x1b[0m\n"},
		"rule":         {"a\n\n---\nb\n", "a\n\n" + strings.Repeat("─", 40) + "\nb\n", ""},
		"block":        {"```go\nif a {\n\treturn \"**x**\"\n}\n```\nafter\n", "    if a {\n        return \"**x**\"\n    }\nafter\n", ""},
		"longer fence": {"````\n```\nx\n```\n````\ny\n", "    ```\n    x\n    ```\ny\n", ""},
		"open block":   {"~~~\nx", "    x\n", ""},
		"wrap":         {"one two three four five six seven eight nine ten\n", "one two three four five six seven eight\nnine ten\n", ""},
		"long word":    {strings.Repeat("x", 60) + " y\n", strings.Repeat("x", 43) + "\n" + strings.Repeat("x", 17) + " y\n", ""},
		"wide":         {strings.Repeat("日本", 15) + "\n", strings.Repeat("日本", 10) + "日\n本" + strings.Repeat("日本", 4) + "\n", ""},
		"hostile":      {"a\x1b[2J**b\x07**\u202ec\n", "a\\x1b[2Jb\\x07\\u202ec\n", ""},
		"blank lines":  {"a\n\n\nb", "a\n\n\nb\n", ""},
		"table":        {"| a | **b** |\n|---|---|\n", "| a | b |\n|---|---|\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rendered(tt.in, 44, false); got != tt.plain {
				t.Errorf("got  %q\nwant %q", got, tt.plain)
			}
			if got := rendered(tt.in, 44, true); tt.colour != "" && got != tt.colour {
				t.Errorf("got  %q\nwant %q", got, tt.colour)
			}
		})
	}
}

// However a text is cut into pieces, the same comes out.
func TestMarkdownInPieces(t *testing.T) {
	text := "# A\n\nSome **bold** and `code`, [a link](http://x.example) and é日本.\n- one\n- two\n```sh\nls -l\n```\nend **open"
	want := rendered(text, 60, true)
	for size := 1; size < 20; size++ {
		m := &markdown{s: style{true}, width: func() int { return 60 }}
		got := ""
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			for !utf8.ValidString(rest[:n]) {
				n++
			}
			got += m.add(rest[:n])
			m.unfinished()
			rest = rest[n:]
		}
		if got += m.end(); got != want {
			t.Errorf("in pieces of %d: %q", size, got)
		}
	}
}

// No text, however strange, makes a row that is too wide or loses a letter.
func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{"**a** `b`", "- x\n> y\n# z", "[a](b) ![c](d)", "```\nx", "*_`[", "\x1b[31m", "日本 **語**"} {
		f.Add(seed, 20)
	}
	f.Fuzz(func(t *testing.T, text string, width int) {
		if len(text) > 2000 || !utf8.ValidString(text) {
			return
		}
		got := rendered(text, width%200, true)
		for strings.Contains(got, "\x1b[") {
			from := strings.Index(got, "\x1b[")
			to := strings.IndexByte(got[from:], 'm')
			if to < 0 {
				t.Fatalf("a sequence without end in %q", got)
			}
			got = got[:from] + got[from+to+1:]
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }) {
			t.Errorf("control characters in %q", got)
		}
	})
}
