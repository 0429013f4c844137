//go:build unix

package abp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A receipt tells the state of a repository without running what the
// repository names: not from its configuration, a file that this includes, or
// the one of a worktree; not in a submodule; and not by fetching what is
// missing. The user's own filters are run.
func TestVerificationRunsNothingOfTheRepository(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(t *testing.T, s *stage, key, value string){
		"configuration": func(t *testing.T, s *stage, key, value string) { git(t, s.ws, "config", key, value) },
		"included file": func(t *testing.T, s *stage, key, value string) {
			git(t, s.ws, "config", "include.path", "more")
			git(t, s.ws, "config", "--file", ".git/more", key, value)
		},
		"worktree's configuration": func(t *testing.T, s *stage, key, value string) {
			git(t, s.ws, "config", "extensions.worktreeConfig", "true")
			git(t, s.ws, "config", "--worktree", key, value)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			marks := filepath.Join(filepath.Dir(s.ws), "marks")
			if err := os.Mkdir(marks, 0o755); err != nil {
				t.Fatal(err)
			}
			s.lay(t, marks, func(key, value string) { set(t, s, key, value) })
			edit := tool("edit", map[string]any{"path": filepath.Join(s.ws, "a.txt"), "old_str": "one", "new_str": "two"})
			v := s.do(t, s.order(script(edit, "next", "text ok"), nil)).Verification
			if v.GitDiff == nil || !strings.Contains(*v.GitDiff, "\n-one\n+two\n") || v.GitStatus == nil || !strings.Contains(*v.GitStatus, " M a.txt\n") || !v.HarnessOK {
				t.Errorf("%+v", v)
			}
			if *v.GitStatus != " M a.txt\n" {
				t.Errorf("the user's filter was not run: %q", *v.GitStatus)
			}
			if got := sprung(t, marks); len(got) > 0 {
				t.Errorf("run: %v", got)
			}
			s.spring(t)
			if got, want := sprung(t, marks), []string{"clean", "external", "fetch", "monitor", "submodule", "textconv"}; !slices.Equal(got, want) {
				t.Errorf("git itself springs %v, want %v", got, want)
			}
		})
	}
}

// lay makes the workspace a repository that is full of traps.
func (s *stage) lay(t *testing.T, marks string, set func(key, value string)) {
	t.Helper()
	trap := func(name, job string) string { return fmt.Sprintf("touch %s/%s; %s", marks, name, job) }
	s.repository(t)
	git(t, s.ws, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", s.ws, "sub")
	home := filepath.Join(filepath.Dir(s.ws), "home", ".gitconfig")
	git(t, s.ws, "config", "--file", home, "filter.users.clean", "tr a-z A-Z")
	s.file(t, "users.big", "SMALL\n")
	s.file(t, "clean.c", "x\n")
	s.file(t, "conv.t", "conv\n")
	s.file(t, ".gitattributes", "*.big filter=users\n*.c filter=evil\n*.t diff=evil\n")
	git(t, s.ws, "add", "-A")
	git(t, s.ws, "commit", "-q", "-m", "more")
	s.file(t, "users.big", "small\n") // the same, for who runs the filter
	s.file(t, "clean.c", "x\n")
	if err := os.Chtimes(filepath.Join(s.ws, "clean.c"), time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	set("filter.evil.clean", trap("clean", "cat"))
	set("core.fsmonitor", trap("monitor", "true"))
	set("diff.external", trap("external", "true"))
	set("diff.evil.textconv", trap("textconv", "cat"))
	set("core.sshCommand", trap("fetch", "false"))
	set("remote.origin.url", "ssh://localhost/nowhere")
	set("remote.origin.promisor", "true")
	git(t, s.ws, "config", "core.repositoryformatversion", "1")
	git(t, s.ws, "config", "extensions.partialClone", "origin")
	git(t, filepath.Join(s.ws, "sub"), "config", "core.fsmonitor", trap("submodule", "true"))
}

// spring runs git as a user would.
func (s *stage) spring(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"status"}, {"diff"}, {"diff", "--no-ext-diff", "HEAD~"}, {"cat-file", "-p", strings.Repeat("1", 40)}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = s.ws, s.opts.Environ
		_ = cmd.Run() // some fail after the deed
	}
}

func sprung(t *testing.T, marks string) []string {
	t.Helper()
	entries, err := os.ReadDir(marks)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A workspace that only looks like a repository is none.
func TestWorkspacePosingAsRepository(t *testing.T) {
	s := newStage(t)
	s.repository(t)
	mark := filepath.Join(filepath.Dir(s.ws), "mark")
	inner := filepath.Join(s.ws, "inner")
	if err := os.Rename(filepath.Join(s.ws, ".git"), inner); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n\tfsmonitor = \"touch %s\"\n", inner, mark)
	if err := os.WriteFile(filepath.Join(inner, "config"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	s.ws = inner
	if v := s.do(t, s.order(script("text ok"), nil)).Verification; v.GitStatus != nil || v.GitDiff != nil || !v.HarnessOK {
		t.Errorf("%+v", v)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("its configuration was used")
	}
	s.spring(t)
	if _, err := os.Stat(mark); err != nil {
		t.Error("the trap does not work at all")
	}
}
