package approval

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Nothing that controls, reorders or hides text gets through, of any of the
// classes that Unicode has for it.
func TestEveryCharacterIsSeen(t *testing.T) {
	bad := func(r rune) bool {
		return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Me) ||
			unicode.Is(unicode.Zs, r) && r != ' ' || !unicode.IsPrint(r)
	}
	var all strings.Builder
	for r := range unicode.MaxRune + 1 {
		if r > 0x1ffff && r>>12 != 0xe0 && r%97 != 0 {
			continue // a sample of what is for private use, or for nothing yet
		}
		if bad(r) && utf8.ValidRune(r) {
			all.WriteString("a" + string(r))
		}
	}
	if got := Visible(all.String()); strings.ContainsFunc(got, bad) {
		t.Errorf("Visible lets %U through", []rune(got)[strings.IndexFunc(got, bad)])
	}
	if got := strings.NewReplacer("\n", "", "\t", "").Replace(Lines(all.String())); strings.ContainsFunc(got, bad) {
		t.Error("Lines lets characters through that Visible does not")
	}
	for text, want := range map[string]string{
		"ls \u202e\u2066 x":     `ls \u202e\u2066 x`,
		"a\u200b\u00adb\ufeff":  `a\u200b\u00adb\ufeff`,
		"tag \U000e0041":        `tag \U000e0041`,
		"a\u2028b\u0085c\vd\fe": `a\u2028b\u0085c\x0bd\x0ce`,
		"x\u00a0y\u2003z\u3000": `x\u00a0y\u2003z\u3000`,
		"\u3164\u115f\u2800":    `\u3164\u115f\u2800`,
		"ok\b\b\x7fno":          `ok\x08\x08\x7fno`,
		"h\u0301\u0301\u0301":   "h\u0301\u0301" + `\u0301`,
		"=\u0338 a\u0336":       `=\u0338 a\u0336`,
		"\xc0\xaf\xed\xa0\x80":  `\xc0\xaf\xed\xa0\x80`,
		"naïve façade 日本語 🙂":    "naïve façade 日本語 🙂",
		"e\u0301 is a letter":   "e\u0301 is a letter",
		`C:\new\u202e "quoted"`: `C:\new\u202e "quoted"`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("%+q: got %q, want %q", text, got, want)
		}
	}
}

// Padding cannot push anything out of sight.
func TestPaddingIsCounted(t *testing.T) {
	for text, want := range map[string]string{
		"ls" + strings.Repeat("\n", 41) + "rm -rf ~":              "ls\n(40 blank lines)\nrm -rf ~",
		"ls\n" + strings.Repeat(" \t \n", 30) + "rm -rf ~":        "ls\n(30 blank lines)\nrm -rf ~",
		"+a\n" + strings.Repeat("+\n", 30) + "+b":                 "+a\n+(30 blank lines)\n+b",
		"| a\n" + strings.Repeat("| \n", 30) + "| b":              "| a\n(30 blank lines)\n| b",
		"ls" + strings.Repeat(" ", 500) + "; rm -rf ~":            "ls (500 spaces) ; rm -rf ~",
		"ls" + strings.Repeat("\t", 60) + "; rm -rf ~":            "ls (480 spaces) ; rm -rf ~",
		"echo ok\n" + strings.Repeat("echo ok\n", 99) + "rm x":    "echo ok\n(the line above 99 more times)\nrm x",
		"func f() {\n\tif x {\n\t\ty()\n\t}\n}\n\nfunc g() {}":    "func f() {\n\tif x {\n\t\ty()\n\t}\n}\n\nfunc g() {}",
		"\t\t\t}\n\t\t}\n\t}\n}":                                  "\t\t\t}\n\t\t}\n\t}\n}",
		"ls\r\n" + strings.Repeat("\r\n", 3) + "echo \x1b[8mhide": "ls\\r\n\\r\n\\r\n\\r\necho \\x1b[8mhide",
	} {
		if got := Lines(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestWhole(t *testing.T) {
	lead, body, err := Question{Who: "A\x1b", Summary: "run: x\u202e", Detail: "a\r\nb\n", Says: "trust\nme " + strings.Repeat("!", 1000)}.Whole(MaxShown)
	if err != nil || lead != `A\x1b wants to run: x\u202e` || !strings.HasPrefix(body, "a\\r\nb\nA\\x1b says: “trust\\nme !!") || len(body) > maxSays+100 {
		t.Errorf("%q, %q, %v", lead, body, err)
	}
	// The summary is repeated next to the place of the answer.
	_, body, err = Question{Summary: "write: x", Detail: strings.Repeat("a\nb\n", 20)}.Whole(MaxShown)
	if err != nil || !strings.HasSuffix(body, "\nAll of the above is one question: write: x") {
		t.Errorf("%q, %v", body, err)
	}
	for name, q := range map[string]Question{
		"long":                {Summary: "run: x", Detail: strings.Repeat("ab ", MaxShown/3+1)},
		"long in its summary": {Summary: strings.Repeat("ab ", MaxShown/3+1)},
		"long by escapes":     {Summary: "run: x", Detail: strings.Repeat("\u202e.", MaxShown/6)},
		"not to be shown":     {Summary: "run: x", Unshown: "it is secret"},
	} {
		if _, _, err := q.Whole(MaxShown); bridge.CodeOf(err) != bridge.CodeDenied || bridge.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := (Question{Summary: "run: x", Detail: "four"}).Whole(20); err == nil || !strings.Contains(err.Error(), "27 bytes long") {
		t.Errorf("a smaller bound: %v", err)
	}
}

// No text can end the block that it is shown in.
func TestFenced(t *testing.T) {
	for text, fence := range map[string]string{"x": "```", "a ``` b": "````", "<!-- hidden -->\n`````": "``````"} {
		if got := Fenced(text); got != fence+"\n"+text+"\n"+fence {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("ls\n\n\n\n\n\n+\n+\n+\n+\n| x \u202e\xff\r" + strings.Repeat(" ", 60) + "e\u0301\u0301\u0301")
	f.Fuzz(func(t *testing.T, s string) {
		once := Lines(s)
		if Hides(once) || !utf8.ValidString(once) {
			t.Errorf("%q has hidden characters", once)
		}
		if again := Lines(once); again != once {
			t.Errorf("%q: %q, then %q", s, once, again)
		}
		if line := Visible(s); strings.ContainsAny(line, "\n\r\t") || Visible(line) != line {
			t.Errorf("%q", line)
		}
	})
}
