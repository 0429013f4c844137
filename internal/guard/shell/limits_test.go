package shell

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBounds(t *testing.T) {
	nested := "touch x"
	for range maxScripts + 1 {
		nested = "bash -c " + "'" + strings.ReplaceAll(nested, "'", `'\''`) + "'"
	}
	for name, script := range map[string]string{
		"size":     strings.Repeat("echo x; ", maxScript/8) + "ls",
		"parens":   strings.Repeat("(", maxParens+1) + "ls" + strings.Repeat(")", maxParens+1),
		"blocks":   strings.Repeat("{ ", maxNesting+1) + "ls; " + strings.Repeat("}; ", maxNesting+1),
		"ifs":      strings.Repeat("if ", maxNesting+1) + "ls" + strings.Repeat("; then ls; fi", maxNesting+1),
		"pipes":    strings.Repeat("ls | ", 300) + "ls",
		"scripts":  nested,
		"wrappers": strings.Repeat("env ", maxWrapping+1) + "ls",
		"commands": strings.Repeat("a;", maxCommands+1),
		"empty":    " \n\t",
		"nothing":  "",
		"UTF-8":    "echo \xff",
	} {
		if a, err := Analyse(script, Bash); err == nil {
			t.Errorf("%s: %d commands", name, len(a.Commands))
		}
	}
}

// A script that is built to take long must not.
func TestHostileScriptsAreQuick(t *testing.T) {
	for name, script := range map[string]string{
		"braces":       "echo " + strings.Repeat("{a,b}", 10000),
		"sequence":     "echo {1..999999}{1..999999}{1..999999}",
		"backquotes":   strings.Repeat("`a ", 20000),
		"escaped":      strings.Repeat("`\\`", 20000),
		"dollars":      strings.Repeat("$(", 99) + strings.Repeat(")", 99),
		"heredocs":     strings.Repeat("cat <<E;", 4000) + "\n" + strings.Repeat("E\n", 4000),
		"words":        "echo " + strings.Repeat("a/b ", 16000),
		"paths":        "cat " + strings.Repeat("/a", 8000) + strings.Repeat(" ./a*", 8000),
		"cds":          strings.Repeat("cd a;", 4900) + "cat b",
		"words in cds": strings.Repeat("cd a;", 100) + "cat " + strings.Repeat("x ", 10000),
		"nested sh":    strings.Repeat("sh -c 'a", 8000),
		"urls":         "x " + strings.Repeat("http://a ", 7000),
		"messages":     strings.Repeat("source a;", 4900),
		"different": func() string {
			var b strings.Builder
			for i := range 4000 {
				b.WriteString("source a")
				b.WriteString(strings.Repeat("x", i%40))
				b.WriteString(";")
			}
			return b.String()[:60000]
		}() + "ls",
		"quotes": strings.Repeat(`"a'`, 20000),
		"sed":    "sed '" + strings.Repeat("s/[/x/;", 9000) + "'",
	} {
		start := time.Now()
		_, err := Analyse(script, Bash)
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%s took %v (%v)", name, took, err)
		}
	}
}

func TestFrom(t *testing.T) {
	first, err := Analyse("cd src", Bash)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Analyse("cat a /b; cd ..", Bash, From(first.Dirs...))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range second.Paths {
		got = append(got, p.Text)
	}
	if want := []string{"src/a", "a", "/b", "src/..", ".."}; !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	if want := []string{"src/..", "..", "src", ""}; !slices.Equal(second.Dirs, want) {
		t.Errorf("dirs %q, want %q", second.Dirs, want)
	}
}

func TestRawAndLine(t *testing.T) {
	a, err := Analyse("ls -l\n\nx=1 cat 'a b' | sh -c 'touch \"y\"\nrm z'", Bash)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range a.Commands {
		got = append(got, c.Raw)
	}
	want := []string{"ls -l", "x=1 cat 'a b'", "sh -c 'touch \"y\"\nrm z'", `touch "y"`, "rm z"}
	if !slices.Equal(got, want) {
		t.Errorf("raw %q, want %q", got, want)
	}
	for i, line := range []int{1, 3, 3, 3, 3} {
		if a.Commands[i].Line != line {
			t.Errorf("%s: line %d, want %d", a.Commands[i].Raw, a.Commands[i].Line, line)
		}
	}
	if as := a.Commands[1].Assignments; len(as) != 1 || as[0].Name != "x" {
		t.Errorf("assignments %v", as)
	}
}

func TestPOSIX(t *testing.T) {
	for script, want := range map[string][]string{
		"echo {a,b}": {"echo", "{a,b}"},
		"echo $'a'":  {"echo", "$a"},
		"((rm x))":   {"rm", "x"},
		"[[ -f x ]]": {"[[", "-f", "x", "]]"},
		"function f": {"function", "f"},
	} {
		a, err := Analyse(script, POSIX)
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		if len(a.Commands) == 0 || !slices.Equal(a.Commands[0].Words, want) {
			t.Errorf("%s: %+v", script, a.Commands)
		}
	}
	for _, script := range []string{"a=(b)", "cat <(ls)", "a <<< b", "a &> b"} {
		if a, err := Analyse(script, POSIX); err == nil {
			t.Errorf("%s: %+v", script, a.Commands)
		}
	}
}
