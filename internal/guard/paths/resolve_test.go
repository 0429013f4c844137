package paths

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

type pathCase struct {
	Path    string
	Want    string
	Rel     string
	Abs     string
	Why     string
	Exists  bool
	Dir     bool
	Windows bool
}

func pathCases(t testing.TB) []pathCase {
	t.Helper()
	raw, err := os.ReadFile("testdata/paths.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []pathCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 150 {
		t.Fatalf("only %d cases", len(cases))
	}
	return cases
}

func TestResolve(t *testing.T) {
	tr := newTree(t)
	unix, windows := open(t, tr), open(t, tr, func(w *Workspace) { w.windows = true })
	for _, tc := range pathCases(t) {
		w := unix
		if tc.Windows {
			w = windows
		}
		t.Run(fmt.Sprintf("%q", tc.Path), func(t *testing.T) {
			got, err := w.Resolve(tr.fill(tc.Path))
			switch {
			case tc.Want == "error":
				var e *bridge.Error
				if !errors.As(err, &e) || e.Code != bridge.CodeInvalid {
					t.Fatalf("got %+v, %v; want an error", got, err)
				}
				if !strings.Contains(err.Error(), tc.Why) {
					t.Errorf("error %q does not say %q", err, tc.Why)
				}
				if got.Inside {
					t.Error("inside although it is an error")
				}
				return
			case err != nil:
				t.Fatal(err)
			case tc.Want == "outside":
				if got.Inside || got.Rel != "" {
					t.Fatalf("got %+v", got)
				}
				if !strings.Contains(got.Reason, "outside the workspace") || !strings.Contains(got.Reason, tc.Why) {
					t.Errorf("reason %q", got.Reason)
				}
			case !got.Inside || got.Reason != "" || tc.Rel != "" && got.Rel != tc.Rel:
				t.Fatalf("got %+v", got)
			}
			if tc.Abs != "" && got.Abs != tr.fill(tc.Abs) {
				t.Errorf("abs %q, want %q", got.Abs, tr.fill(tc.Abs))
			}
			if (tc.Exists || tc.Dir) && !got.Exists || tc.Dir && !got.IsDir {
				t.Errorf("exists %v, directory %v", got.Exists, got.IsDir)
			}
			if tc.Rel != "" && filepath.Join(tr.ws, tc.Rel) != got.Abs {
				t.Errorf("%q and %q do not agree", got.Rel, got.Abs)
			}
		})
	}
}

func TestResolveTooLong(t *testing.T) {
	w := open(t, newTree(t))
	if got, err := w.Resolve(strings.Repeat("a/", 3000)); err == nil {
		t.Errorf("got %+v", got)
	}
	if _, err := w.Resolve("\xff\xfe"); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("got %v", err)
	}
}

// What cannot be looked at must not be taken for what does not exist.
func TestResolveUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		// A name that the kernel refuses fails for root, too.
		w := open(t, newTree(t))
		if got, err := w.Resolve(strings.Repeat("n", 300)); err == nil {
			t.Errorf("got %+v", got)
		}
		return
	}
	tr := newTree(t)
	w := open(t, tr)
	locked := filepath.Join(tr.ws, "locked")
	if err := os.Mkdir(locked, 0o000); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Resolve("locked/x/y"); err == nil {
		t.Errorf("got %+v", got)
	}
}

func TestNewRefuses(t *testing.T) {
	tr := newTree(t)
	for _, root := range []string{"", tr.ws + "/nothing", tr.ws + "/README.md", tr.ws + "/self", "a\x00b"} {
		if w, err := New(root); err == nil {
			t.Errorf("New(%q) = %v", root, w.Root())
		} else if bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("New(%q): %v", root, err)
		}
	}
}

func TestNewFollowsLinkToRoot(t *testing.T) {
	tr := newTree(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(tr.ws, link); err != nil {
		t.Fatal(err)
	}
	w, err := New(link)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if w.Root() != tr.ws {
		t.Errorf("root %s", w.Root())
	}
	for _, p := range []string{link + "/src/main.go", tr.ws + "/src/main.go", "src/main.go"} {
		if got, err := w.Resolve(p); err != nil || got.Rel != "src/main.go" {
			t.Errorf("%s: %+v, %v", p, got, err)
		}
	}
}

func TestRootOfTheFileSystem(t *testing.T) {
	w, err := New("/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	for path, rel := range map[string]string{"/": ".", "/etc/hosts": "etc/hosts", "etc": "etc", "../..": "."} {
		if got, err := w.Resolve(path); err != nil || !got.Inside || got.Rel != rel {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
}

func TestHomeAroundWorkspace(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr, WithHome(filepath.Dir(tr.ws)))
	for _, p := range []string{"~/ws/src/main.go", "$HOME/ws/src/main.go", "${HOME}/ws/src/main.go"} {
		if got, err := w.Resolve(p); err != nil || got.Rel != "src/main.go" {
			t.Errorf("%s: %+v, %v", p, got, err)
		}
	}
	if got, err := open(t, tr, WithHome("")).Resolve("~/x"); err == nil {
		t.Errorf("no home: %+v", got)
	}
}

// A file system that folds case is imitated by claiming it: the spelling is
// then believed only as far as the file system confirms it.
func TestCaseFolding(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr)
	if same, known := sameFile(tr.ws, filepath.Join(filepath.Dir(tr.ws), "WS")); known && w.CaseFolding() != same {
		t.Errorf("folding %v, the file system says %v", w.CaseFolding(), same)
	}
	if w.CaseFolding() {
		got, err := w.Resolve(filepath.Join(filepath.Dir(tr.ws), "WS", "src"))
		if err != nil || got.Rel != "src" {
			t.Errorf("%+v, %v", got, err)
		}
		return
	}
	w.folding = true
	upper := filepath.Join(filepath.Dir(tr.ws), "WS")
	if got, err := w.Resolve(upper + "/src"); err != nil || got.Inside {
		t.Errorf("another directory passed: %+v, %v", got, err)
	}
	if err := os.Mkdir(upper, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Resolve(upper + "/src"); err != nil || got.Inside {
		t.Errorf("another directory passed: %+v, %v", got, err)
	}
}

func TestSwapCase(t *testing.T) {
	if got := swapCase("Ab-ñ1"); got != "aB-ñ1" {
		t.Errorf("got %q", got)
	}
}

func BenchmarkResolve(b *testing.B) {
	tr := newTree(b)
	w := open(b, tr)
	for name, path := range map[string]string{"relative": "src/deep/new.go", "absolute": tr.ws + "/src/main.go", "link": "chain1/main.go", "outside": "/etc/ssl/certs/x.pem"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := w.Resolve(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
