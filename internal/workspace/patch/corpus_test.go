package patch

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestCorpus runs the cases of testdata/corpus: a tree, a diff, and what both
// git apply and Apply make of it. Lines before the first file say what cannot
// be written as text:
//
//	# a comment
//	want applies | refuses | ours-refuses TEXT | git-refuses
//	symlink NAME TARGET, mkdir NAME, exec NAME, chomp NAME, crlf NAME,
//	base64 NAME, move NAME "QUOTED NAME"
//
// A NAME of "diff" means the diff itself, any other one is in the tree.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 60 {
		t.Errorf("only %d cases", len(files))
	}
	g := newGit(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			c := readCase(t, file)
			v := g.compare(t, c.old, c.diff)
			switch c.want {
			case "applies":
				if v.mismatch != "" || !v.applied {
					t.Errorf("both should apply it: %+v", v)
				}
			case "refuses":
				if v.mismatch != "" || v.applied {
					t.Errorf("both should refuse it: %+v", v)
				}
				if !strings.Contains(v.refusal, c.text) {
					t.Errorf("the refusal should say %q: %s", c.text, v.refusal)
				}
			case "ours-refuses":
				if v.git != "" || v.applied || !strings.Contains(v.refusal, c.text) || strings.HasPrefix(v.mismatch, "refused, but") {
					t.Errorf("git should apply it and we refuse it with %q: %+v", c.text, v)
				}
			default:
				t.Fatalf("what is wanted by %q?", c.want)
			}
		})
	}
}

type corpusCase struct {
	old        tree
	diff       string
	want, text string
}

func readCase(t *testing.T, file string) corpusCase {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := corpusCase{old: tree{}}
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "old/"); ok {
			c.old[name] = entry{"file", string(f.Data)}
		} else {
			c.diff = string(f.Data)
		}
	}
	for line := range strings.Lines(string(archive.Comment)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, arg, _ := strings.Cut(rest, " ")
		change := func(f func(string) string) {
			if name == "diff" {
				c.diff = f(c.diff)
				return
			}
			e := c.old[name]
			e.data = f(e.data)
			c.old[name] = e
		}
		switch word {
		case "", "#":
		case "want":
			c.want, c.text = name, arg
		case "symlink":
			c.old[name] = entry{"link", arg}
		case "mkdir":
			c.old[name] = entry{kind: "dir"}
		case "exec":
			c.old[name] = entry{"exec", c.old[name].data}
		case "chomp":
			change(func(s string) string { return strings.TrimSuffix(s, "\n") })
		case "crlf":
			change(func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") })
		case "base64":
			change(func(s string) string {
				data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			})
		case "move":
			to, err := strconv.Unquote(arg)
			if err != nil {
				t.Fatal(err)
			}
			c.old[to] = c.old[name]
			delete(c.old, name)
		default:
			t.Fatalf("%s: unknown word %q", file, word)
		}
	}
	return c
}

// What lies beside the workspace stays as it is, whatever a diff says.
func TestCorpusOutside(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	g := newGit(t)
	for _, file := range files {
		c := readCase(t, file)
		outer, err := os.MkdirTemp(g.base, "outer")
		if err != nil {
			t.Fatal(err)
		}
		beside := tree{"secret": {"file", "one\n"}, "x": {"file", "1\n2\n3\n"}, "dir/x": {"file", "1\n2\n3\n"}}
		beside.write(t, outer)
		dir := filepath.Join(outer, "workspace")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		c.old.write(t, dir)
		root := open(t, dir)
		_, _ = Apply(t.Context(), root, c.diff, Options{Journal: filepath.Join(g.base, "journal")}) // either outcome
		after := readTree(t, outer)
		for name := range after {
			if strings.HasPrefix(name, "workspace") {
				delete(after, name)
			}
		}
		if d := beside.diff(after); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

func open(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}
