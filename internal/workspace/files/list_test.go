package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
}

func sample(t *testing.T) *os.Root {
	t.Helper()
	dir := t.TempDir()
	tree(t, dir, map[string]string{
		".gitignore": "*.log\n/build/\n!.env.example\n", ".env": "", ".env.example": "",
		".github/ci.yml": "", ".git/config": "", "sub/.git/config": "", "worktree/.git": "gitdir: x",
		"README.md": "", "a.log": "", "build/x.go": "", "a/b.go": "", "a.b/c.go": "", "a-b.go": "",
		"src/main.go": "", "src/web/app.ts": "", "src/web/app.tsx": "", "src/web/deep/x.ts": "",
		"sub/x.log": "", "vendor/v.go": "", "worktree/w.go": "",
	})
	for link, target := range map[string]string{"linkdir": "src", "linkfile": "README.md", "outside": os.TempDir()} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return openRoot(t, dir)
}

func TestList(t *testing.T) {
	root := sample(t)
	all := []string{".env.example", "README.md", "a/b.go", "a-b.go", "a.b/c.go", "src/main.go", "src/web/app.ts", "src/web/app.tsx",
		"src/web/deep/x.ts", "sub/x.log", "vendor/v.go", "worktree/w.go"}
	tests := []struct {
		name string
		o    ListOptions
		want []string
		cut  bool
	}{
		{name: "all", want: all},
		{name: "limit", o: ListOptions{Limit: 3}, want: all[:3], cut: true},
		{name: "exactly the limit", o: ListOptions{Limit: len(all)}, want: all},
		{name: "name at any depth", o: ListOptions{Scope: Scope{Glob: []string{"*.ts"}}}, want: []string{"src/web/app.ts", "src/web/deep/x.ts"}},
		{name: "anchored", o: ListOptions{Scope: Scope{Glob: []string{"/*.go"}}}, want: []string{"a-b.go"}},
		{name: "path", o: ListOptions{Scope: Scope{Glob: []string{"src/*/*.ts"}}}, want: []string{"src/web/app.ts"}},
		{name: "braces", o: ListOptions{Scope: Scope{Glob: []string{"src/**/*.{ts,tsx}"}}}, want: []string{"src/web/app.ts", "src/web/app.tsx", "src/web/deep/x.ts"}},
		{name: "several", o: ListOptions{Scope: Scope{Glob: []string{"./src/main.go", "vendor/"}}}, want: []string{"src/main.go", "vendor/v.go"}},
		{name: "exclude", o: ListOptions{Scope: Scope{Glob: []string{"*.go"}, Exclude: []string{"vendor", "a.b/**", "/a-b.go"}}}, want: []string{"a/b.go", "src/main.go", "worktree/w.go"}},
		{name: "ignored stays ignored", o: ListOptions{Scope: Scope{Glob: []string{"*.log", "build/**"}}}, want: []string{"sub/x.log"}},
		{name: "no ignore", o: ListOptions{Scope: Scope{Glob: []string{"*.log", "build/**"}, NoIgnore: true}}, want: []string{"a.log", "build/x.go", "sub/x.log"}},
		{name: "hidden", o: ListOptions{Scope: Scope{Glob: []string{".*", ".*/**"}, Hidden: true}}, want: []string{".env", ".env.example", ".github/ci.yml", ".gitignore"}},
		{name: "never .git", o: ListOptions{Scope: Scope{Glob: []string{"**/.git/**", ".git"}, Hidden: true, NoIgnore: true}}, want: []string{}},
		{name: "keep", o: ListOptions{Scope: Scope{Keep: func(p string) bool { return strings.HasPrefix(p, "src/") }}}, want: all[5:9]},
		{name: "nothing", o: ListOptions{Scope: Scope{Glob: []string{"*.rs"}}}, want: []string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := List(t.Context(), root, test.o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Files, test.want) || got.Files == nil || got.Truncated != test.cut {
				t.Errorf("got %q, truncated %t\nwant %q, truncated %t", got.Files, got.Truncated, test.want, test.cut)
			}
		})
	}
}

func TestWrongPatternsAreNamed(t *testing.T) {
	root := sample(t)
	for _, p := range []string{"", "[", "{a", "../x", "a/../b", "a\x00", "a\nb", strings.Repeat("{a,b}", 12), strings.Repeat("x", 5000)} {
		for _, s := range []Scope{{Glob: []string{p}}, {Exclude: []string{p}}} {
			_, err := List(t.Context(), root, ListOptions{Scope: s})
			if bridge.CodeOf(err) != bridge.CodeInvalid || bridge.AsError(err).Remedy == "" {
				t.Errorf("%q: got %v", p, err)
			}
		}
	}
	if _, err := NewFilter(Scope{Glob: make([]string, maxPatterns+1)}); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("too many: got %v", err)
	}
}

func TestWalkFindsWhatIsListed(t *testing.T) {
	root := sample(t)
	want, err := List(t.Context(), root, ListOptions{Scope: Scope{Hidden: true}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = Walk(t.Context(), root, Scope{Hidden: true}, func(f File) error {
		file, info, err := f.Open()
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("open %s: %v", f.Path, err)
			return err
		}
		got = append(got, f.Path)
		return file.Close()
	})
	if err != nil || !slices.Equal(got, want.Files) {
		t.Errorf("got %q, %v\nwant %q", got, err, want.Files)
	}
	if _, err := root.Stat("."); err != nil {
		t.Errorf("the caller's root was closed: %v", err)
	}
}

func TestWalkStops(t *testing.T) {
	root := sample(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := Walk(ctx, root, Scope{}, func(File) error { cancel(); return nil })
	if bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Errorf("canceled: got %v", err)
	}
	own := errors.New("own")
	err = Walk(t.Context(), root, Scope{}, func(File) error { return own })
	if !errors.Is(err, own) {
		t.Errorf("failed visit: got %v", err)
	}
}

func TestCompareKeepsDirectoriesTogether(t *testing.T) {
	got := []string{"b", "a.x", "a/b", "a", "a-b", "a/a/c", "ab"}
	slices.SortFunc(got, Compare)
	if want := []string{"a", "a/a/c", "a/b", "a-b", "a.x", "ab", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func FuzzFilter(f *testing.F) {
	for _, seed := range []string{"**/*.go", "{a,b}/[!c]*", "*", "src/", `\{`, "[a-", "{a,{b,c}}", "**/**/**", "a/**/b/"} {
		f.Add(seed, "src/a/main.go")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		include, err := NewFilter(Scope{Glob: []string{pattern}})
		if err != nil {
			if bridge.CodeOf(err) != bridge.CodeInvalid {
				t.Errorf("got %v", err)
			}
			return
		}
		exclude, err := NewFilter(Scope{Exclude: []string{pattern}})
		if err != nil {
			t.Fatalf("fits as Glob but not as Exclude: %v", err)
		}
		if len(path) < 300 && include.File(path) && exclude.File(path) {
			t.Errorf("%q both includes and does not exclude %q", pattern, path)
		}
	})
}
