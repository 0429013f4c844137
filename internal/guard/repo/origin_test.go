package repo

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestOrigin(t *testing.T) {
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	want := func(dir, name, branch string) {
		t.Helper()
		if n, b := Origin(dir); n != name || b != branch {
			t.Errorf("%s: %q on %q, want %q on %q", dir, n, b, name, branch)
		}
	}
	top := filepath.Join(t.TempDir(), "top")
	below := filepath.Join(top, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	want(below, "", "")
	git(top, "init", "-q", "-b", "feature/x")
	want(below, "", "feature/x")
	git(top, "remote", "add", "origin", "https://user:secret@github.com/acme/widgets.git")
	want(below, "acme/widgets", "feature/x")
	git(top, "commit", "-q", "--allow-empty", "-m", "one")
	tree := filepath.Join(t.TempDir(), "tree")
	git(top, "worktree", "add", "-q", "-b", "other", tree)
	want(tree, "acme/widgets", "other")
	git(tree, "checkout", "-q", "--detach")
	want(tree, "acme/widgets", "")
	if err := os.WriteFile(filepath.Join(top, ".git", "config"), []byte("[broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(top, "", "feature/x")
	want("relative", "", "")
	want("", "", "")
}

func TestRemoteName(t *testing.T) {
	for remote, want := range map[string]string{
		"git@github.com:acme/widgets.git":       "acme/widgets",
		"ssh://git@github.com:22/acme/widgets":  "acme/widgets",
		"https://gitlab.com/group/sub/name.git": "group/sub/name",
		"https://token@host/acme/widgets/":      "acme/widgets",
		"/srv/git/widgets.git":                  "",
		"../widgets":                            "",
		`C:\git\widgets`:                        "",
		"":                                      "",
	} {
		if got := remoteName(remote); got != want {
			t.Errorf("%q: %q, want %q", remote, got, want)
		}
	}
}
