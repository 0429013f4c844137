package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// `git status` needs no permission in a plain repository. It is denied if the
// repository would make it run a program, also in a directory that only looks
// like a repository.
func TestToolBusGitStatus(t *testing.T) {
	t.Parallel()
	s := serveFiles(t, map[string]string{"a.txt": "a\n"}, nil)
	mark := filepath.Join(s.home, "mark")
	git := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = s.dir, s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", "-A")
	if out, errs, code := s.call(t, "mcp.shell.run", `["git status --short"]`); code != 0 || !strings.Contains(out, "A  a.txt") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	git("config", "core.fsmonitor", "touch "+mark)
	if _, errs, code := s.call(t, "mcp.shell.run", `["git status --short"]`); code != 4 || !strings.Contains(errs, "core.fsmonitor") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the file system monitor was run")
	}
	// The workspace itself becomes the same repository.
	if err := os.CopyFS(s.dir, os.DirFS(filepath.Join(s.dir, ".git"))); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n\tfsmonitor = touch %s\n", s.dir, mark)
	if err := os.WriteFile(filepath.Join(s.dir, "config"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, errs, _ := s.call(t, "mcp.shell.run", `["git status --short"]`); strings.Contains(out, "a.txt") {
		t.Errorf("%s%s", out, errs)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the file system monitor was run")
	}
	git("status")
	if _, err := os.Stat(mark); err != nil {
		t.Error("the trap does not work even with plain git")
	}
}
