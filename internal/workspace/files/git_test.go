package files

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// git runs git in dir with none of the user's settings.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "XDG_CONFIG_HOME="+dir, "HOME="+dir, "LC_ALL=C")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// elements are the names that trees and patterns are made of.
var elements = []string{"a", "b", "ab", "abc", "a.o", "b.c", ".h", "A", "a b", "a[b]", "a-b", "#x", "!y", "z ", "é"}

func randomTree(t *testing.T, r *rand.Rand, dir string) (dirs []string) {
	t.Helper()
	dirs = []string{"."}
	for range 14 {
		d := filepath.Join(dirs[r.IntN(len(dirs))], elements[r.IntN(len(elements))])
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			continue // a file is in the way
		}
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
		for range 4 {
			f := filepath.Join(dir, dirs[r.IntN(len(dirs))], elements[r.IntN(len(elements))])
			if _, err := os.Lstat(f); err == nil {
				continue
			}
			write(t, f, "")
		}
	}
	return dirs
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func randomRules(r *rand.Rand) string {
	pieces := append([]string{"*", "**", "?", "*.o", "[ab]", "[!a]", "[a-b]*", "a*", "*b", `\*`, `\a`, "[[:alpha:]]", "[]a]", "a[b", "**b", "a**", "[a-", `a\ `}, elements...)
	var lines strings.Builder
	for range 1 + r.IntN(5) {
		if r.IntN(3) == 0 {
			lines.WriteByte('!')
		}
		if r.IntN(4) == 0 {
			lines.WriteByte('/')
		}
		for i := range 1 + r.IntN(3) {
			if i > 0 {
				lines.WriteByte('/')
			}
			lines.WriteString(pieces[r.IntN(len(pieces))])
		}
		if r.IntN(4) == 0 {
			lines.WriteByte('/')
		}
		if r.IntN(8) == 0 {
			lines.WriteByte(' ')
		}
		if r.IntN(8) == 0 {
			lines.WriteByte('\r')
		}
		lines.WriteByte('\n')
	}
	return lines.String()
}

// Random trees under random ignore files are listed as git lists them.
func TestIgnoreFilesAsGit(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	ignored := 0
	for tree := range 8 {
		dir := t.TempDir()
		git(t, dir, "init", "-q")
		dirs := randomTree(t, r, dir)
		root := openRoot(t, dir)
		for range 50 {
			var rules strings.Builder
			for i, d := range dirs {
				file := filepath.Join(dir, d, ".gitignore")
				if i > 0 && r.IntN(4) > 0 {
					_ = os.Remove(file)
					continue
				}
				text := randomRules(r)
				write(t, file, text)
				fmt.Fprintf(&rules, "%s/.gitignore:\n%s", d, text)
			}
			text := randomRules(r)
			write(t, filepath.Join(dir, ".git", "info", "exclude"), text)
			fmt.Fprintf(&rules, "exclude:\n%s", text)

			want := strings.Split(strings.Trim(git(t, dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00"), "\x00")
			slices.SortFunc(want, Compare)
			want = slices.DeleteFunc(want, func(s string) bool { return s == "" })
			got, err := List(t.Context(), root, ListOptions{Scope: Scope{Hidden: true}})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Files, want) {
				t.Fatalf("seed %d, tree %d\n%s\ngot  %q\nwant %q", seed, tree, rules.String(), got.Files, want)
			}
			all, err := List(t.Context(), root, ListOptions{Scope: Scope{Hidden: true, NoIgnore: true}})
			if err != nil {
				t.Fatal(err)
			}
			ignored += len(all.Files) - len(got.Files)
		}
	}
	if ignored < 1000 {
		t.Errorf("only %d files were ignored: the rules are too tame", ignored)
	}
}

// A root that lies inside a repository obeys the ignore files above it, up to
// the top of the repository.
func TestIgnoreFilesAboveTheRoot(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, map[string]string{
		".gitignore":              "*.outside\n",
		"repo/.gitignore":         "*.log\n/sub/work/out\n!keep.log\n",
		"repo/sub/.ignore":        "work/secret\n",
		"repo/sub/work/a.log":     "",
		"repo/sub/work/keep.log":  "",
		"repo/sub/work/out/x":     "",
		"repo/sub/work/secret":    "",
		"repo/sub/work/x.outside": "",
		"repo/sub/work/.git/x":    "",
	})
	root := openRoot(t, filepath.Join(dir, "repo/sub/work"))
	list := func() []string {
		t.Helper()
		l, err := List(t.Context(), root, ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l.Files
	}
	if got, want := list(), []string{"a.log", "keep.log", "out/x", "secret", "x.outside"}; !slices.Equal(got, want) {
		t.Errorf("as a repository of its own: got %q, want %q", got, want)
	}
	if err := os.RemoveAll(filepath.Join(dir, "repo/sub/work/.git")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "repo/.git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, want := list(), []string{"keep.log", "x.outside"}; !slices.Equal(got, want) {
		t.Errorf("inside a repository: got %q, want %q", got, want)
	}
}
