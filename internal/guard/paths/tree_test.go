package paths

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a workspace with every kind of link in it, beside a directory that
// nothing may reach and a home directory.
type tree struct {
	ws, out, home string
}

func (tr tree) fill(s string) string {
	return strings.NewReplacer("{{ws}}", tr.ws, "{{wsname}}", filepath.Base(tr.ws),
		"{{out}}", tr.out, "{{outname}}", filepath.Base(tr.out), "{{home}}", tr.home).Replace(s)
}

func newTree(t testing.TB) tree {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := tree{ws: filepath.Join(top, "ws"), out: filepath.Join(top, "outer"), home: filepath.Join(top, "home")}
	for _, d := range []string{tr.ws + "/src/deep", tr.ws + "/docs", tr.ws + "-sibling", tr.out + "/deep", tr.home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{tr.ws + "/src/main.go", tr.ws + "/README.md", tr.out + "/secret.txt", tr.out + "/deep/secret.txt"} {
		if err := os.WriteFile(f, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{
		"link": tr.out, "rel-link": "../outer", "filelink": tr.out + "/secret.txt",
		"dangling": tr.out + "/nothing", "dangling-in": "src/nothing", "dangling-up": "nothing/../../x",
		"inside": "src", "abs-in": tr.ws + "/src", "chain1": "chain2", "chain2": "./chain3", "chain3": "src",
		"chain-out1": "chain-out2", "chain-out2": "src/../link", "up": "..", "src/deep/up": "../../..", "src/deep/top": "../..",
		"through": "link/deep", "mixed": "inside/../../outer", "loop-a": "loop-b", "loop-b": "loop-a", "self": "self",
		"docs/into": "../src/deep",
	}
	for i := range 60 { // long00 passes 60 links, long20 passes 40
		links[fmt.Sprintf("long%02d", i)] = fmt.Sprintf("long%02d", i+1)
	}
	links["long59"] = "src"
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(tr.ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func open(t testing.TB, tr tree, opts ...Option) *Workspace {
	t.Helper()
	w, err := New(tr.ws, append([]Option{WithHome(tr.home)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}
