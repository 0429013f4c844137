package shell

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

var update = flag.Bool("update", false, "write what Analyse says into testdata/scripts.txt; read the difference before you keep it")

// A case in testdata/scripts.txt is a script, in lines that begin with "$ " or
// "> ", and behind it what Analyse has to say, one item a line, until an empty
// line. Lines that begin with "#" separate groups.
type scriptCase struct {
	comments []string
	script   string
	want     string
}

func scriptCases(t testing.TB) []scriptCase {
	t.Helper()
	raw, err := os.ReadFile("testdata/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cases []scriptCase
	for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		var c scriptCase
		var script, want []string
		for line := range strings.SplitSeq(block, "\n") {
			switch {
			case strings.HasPrefix(line, "# "):
				c.comments = append(c.comments, line)
			case strings.HasPrefix(line, "$ "), strings.HasPrefix(line, "> "):
				script = append(script, line[2:])
			case line == "$", line == ">":
				script = append(script, "")
			default:
				want = append(want, line)
			}
		}
		c.script, c.want = unescapeCase(strings.Join(script, "\n")), strings.Join(want, "\n")
		cases = append(cases, c)
	}
	return cases
}

// unescapeCase lets a case hold characters that would not survive an editor.
func unescapeCase(s string) string {
	for {
		i := strings.Index(s, "⟨")
		if i < 0 {
			return s
		}
		end := strings.Index(s, "⟩")
		n, err := strconv.ParseUint(s[i+len("⟨"):end], 16, 32)
		if err != nil {
			panic(err)
		}
		s = s[:i] + string(rune(n)) + s[end+len("⟩"):]
	}
}

// describe writes an analysis down, one item a line.
func describe(a Analysis, err error) string {
	if err != nil {
		return "error " + err.Error()
	}
	var b strings.Builder
	for _, c := range a.Commands {
		var words []string
		for i, w := range c.Words {
			switch {
			case slices.Contains(c.DynamicWords, i):
				w = "<" + w + ">"
			case w == "" || strings.ContainsAny(w, " \t\n\"'\\<>`") || strings.ContainsFunc(w, func(r rune) bool { return r < ' ' || r > '~' }):
				w = strconv.Quote(w)
			}
			if slices.Contains(c.Globs, i) {
				w = "glob:" + w
			}
			words = append(words, w)
		}
		fmt.Fprintf(&b, "run %s", strings.ReplaceAll(strings.Join(words, " "), "\n", `\n`))
		if c.DynamicName {
			b.WriteString(" [unknown]")
		} else if c.Dynamic && len(c.DynamicWords) == 0 {
			b.WriteString(" [dynamic]")
		}
		if c.Via != "" {
			fmt.Fprintf(&b, " [via %s]", c.Via)
		}
		if c.Wrapper {
			b.WriteString(" [wrapper]")
		}
		if c.Network {
			b.WriteString(" [network]")
		}
		if c.Altered {
			b.WriteString(" [altered]")
		}
		if c.Words[0] == "git" && !slices.Equal(c.Dirs, []string{""}) {
			fmt.Fprintf(&b, " [in %q]", c.Dirs)
		}
		if c.Lost {
			b.WriteString(" [anywhere]")
		}
		b.WriteByte('\n')
	}
	for _, r := range a.Redirects {
		fmt.Fprintf(&b, "redirect %s", r.Path)
		if r.Write {
			b.WriteString(" [write]")
		}
		b.WriteByte('\n')
	}
	for _, p := range a.Paths {
		fmt.Fprintf(&b, "path %s", strings.ReplaceAll(p.Text, "\n", `\n`))
		if p.Pattern != "" {
			fmt.Fprintf(&b, " [glob %s]", p.Pattern)
		}
		if p.Write {
			b.WriteString(" [write]")
		}
		if !p.Certain {
			b.WriteString(" [maybe]")
		}
		if p.Reach == ReachLinks {
			b.WriteString(" [through links]")
		}
		if p.Moves {
			b.WriteString(" [whole]")
		}
		if p.Unknown {
			b.WriteString(" [names unknown]")
		}
		b.WriteByte('\n')
	}
	for _, c := range a.Copies {
		fmt.Fprintf(&b, "copy %s to %s\n", cmp.Or(c.From.Pattern, c.From.Text), c.To.Text)
	}
	for _, kind := range []struct {
		name string
		list []string
	}{{"url", a.URLs}, {"opaque", a.Opaque}, {"dangerous", a.Dangerous}, {"problem", a.Problems}} {
		for _, s := range kind.list {
			fmt.Fprintf(&b, "%s %s\n", kind.name, s)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestAnalyse(t *testing.T) {
	cases := scriptCases(t)
	if len(cases) < 200 {
		t.Errorf("only %d cases", len(cases))
	}
	for i, c := range cases {
		a, err := Analyse(c.script)
		got := describe(a, err)
		if *update {
			cases[i].want = got
			continue
		}
		if got != c.want {
			t.Errorf("%s\n--- got\n%s\n--- want\n%s", c.script, got, c.want)
		}
		if err != nil && bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%s: code %s", c.script, bridge.CodeOf(err))
		}
	}
	if *update {
		writeCases(t, cases)
	}
}

func writeCases(t *testing.T, cases []scriptCase) {
	t.Helper()
	var b strings.Builder
	for _, c := range cases {
		for _, comment := range c.comments {
			b.WriteString(comment + "\n")
		}
		escaped := strings.Map(func(r rune) rune { return r }, c.script)
		for i, line := range strings.Split(escaped, "\n") {
			b.WriteString(map[bool]string{true: "$", false: ">"}[i == 0])
			if line != "" {
				b.WriteString(" ")
			}
			for _, r := range line {
				if r < ' ' || r == 0x7f || r >= 0x80 && !strings.ContainsRune("éü…", r) {
					fmt.Fprintf(&b, "⟨%x⟩", r)
				} else {
					b.WriteRune(r)
				}
			}
			b.WriteString("\n")
		}
		b.WriteString(c.want + "\n\n")
	}
	if err := os.WriteFile("testdata/scripts.txt", []byte(strings.TrimSuffix(b.String(), "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}
