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
		if a, err := Analyse(script); err == nil {
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
		_, err := Analyse(script)
		// Without its limits the analysis takes minutes or more; with them and
		// the race detector on a busy machine it takes seconds.
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v (%v)", name, took, err)
		}
	}
}

func TestRaw(t *testing.T) {
	a, err := Analyse("ls -l\n\nx=1 cat 'a b' | sh -c 'touch \"y\"\nrm z'")
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
	if as := a.Commands[1].Assignments; len(as) != 1 || as[0].Name != "x" {
		t.Errorf("assignments %v", as)
	}
}

// Only scripts of sed that are sure to run and write nothing pass.
func TestSedScripts(t *testing.T) {
	for _, s := range []string{"1,3p", "s/a/b/g", "/x/{s/a/b/;p}", `:a;N;$!ba;s/\n/ /g`, "/[0-9]/d", "$!N;P;D", "2i hello", "/a/,/b/d", "s|a|b|", "s#/x/#y#g", `s/\(a\)/\1/`} {
		if !sedPlain.MatchString(s) {
			t.Errorf("%q is not plain", s)
		}
	}
	for _, s := range []string{"1e id", "s/a/b/e", "w x", "s/a/b/w x", "e", "p;e id", "{e}", "r x", "1{e id}", "s/[/]/x/e", "a x\ne id", "s/a/b\n/;e", "/a/e", "ba;e id", "s/a/b/gw x", "s,a,b,e",
		":a e id", "i\\\nx\\\ne", `s/a\/b/e/e`} {
		if sedPlain.MatchString(s) {
			t.Errorf("%q is plain", s)
		}
	}
}
