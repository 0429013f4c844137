//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// trapsRun lists the traps that were run.
func (s *repoBench) trapsRun() []string {
	s.t.Helper()
	out := []string{}
	entries, err := os.ReadDir(filepath.Join(filepath.Dir(s.dir), "marks"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// trap returns a command that leaves a mark and then does its job.
func (s *repoBench) trap(name, job string) string {
	s.t.Helper()
	dir := filepath.Join(filepath.Dir(s.dir), "marks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("touch %s/%s; %s", dir, name, job)
}

// orchestrate runs no program that the repository's configuration names,
// including included files and the configuration of a worktree. The user's own
// filter is run.
func TestOrchestrationRunsNothingOfTheRepository(t *testing.T) {
	for name, set := range map[string]func(s *repoBench, key, value string){
		"configuration": func(s *repoBench, key, value string) { s.git("config", key, value) },
		"included file": func(s *repoBench, key, value string) {
			s.git("config", "include.path", "more")
			s.git("config", "--file", ".git/more", key, value)
		},
		"worktree's configuration": func(s *repoBench, key, value string) {
			s.git("config", "extensions.worktreeConfig", "true")
			s.git("config", "--worktree", key, value)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRepoBench(t)
			s.sandbox = "off" // the traps leave their marks outside the workspace
			s.setTraps(func(key, value string) { set(s, key, value) })
			p := orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{
				part("one", orchestrate.Small, edit("big.txt", "line-010", "ONE"), tool("create", map[string]string{"path": "one.up", "file_text": "one\n"})),
				part("two", orchestrate.Small, edit("big.txt", "line-100", "TWO")),
				part("both", orchestrate.Small, edit("README.md", "hello", "bye")),
			}, Dependencies: map[string][]string{"both": {"one", "two"}}}
			r, code, types := s.run("do it", "--plan", s.plan(p))
			if code != 0 || !r.Success || !slices.Contains(types, "notice") {
				t.Errorf("exit %d, %v: %s", code, types, r.Summary)
			}
			if got := s.trapsRun(); !slices.Equal(got, []string{"users"}) {
				t.Errorf("run: %v", got)
			}
			if big := s.read("big.txt"); !strings.Contains(big, "ONE\n") || !strings.Contains(big, "TWO\n") || s.read("README.md") != "bye\n" || s.read("one.up") != "one\n" {
				t.Error("the work did not arrive")
			}
			s.springTraps()
			if got, want := s.trapsRun(), []string{"clean", "driver", "fetch", "hook", "monitor", "smudge", "users"}; !slices.Equal(got, want) {
				t.Errorf("git itself runs the traps %v, want %v", got, want)
			}
		})
	}
}

func (s *repoBench) setTraps(set func(key, value string)) {
	s.t.Helper()
	for _, branch := range []string{"left", "right"} {
		s.git("checkout", "-q", "-b", branch, "main")
		s.write("README.md", branch+"\n")
		s.git("commit", "-q", "-a", "-m", branch)
	}
	s.git("checkout", "-q", "main")
	s.write(".gitattributes", "*.txt merge=evil filter=evil\n*.md merge=evil filter=evil\n*.up filter=users\n")
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "attributes")
	s.write("mine.txt", "uncommitted\n")
	if err := os.MkdirAll(s.home, 0o755); err != nil {
		s.t.Fatal(err)
	}
	s.git("config", "--file", filepath.Join(s.home, ".gitconfig"), "filter.users.clean", s.trap("users", "tr a-z A-Z"))
	s.git("config", "--file", filepath.Join(s.home, ".gitconfig"), "filter.users.smudge", "tr A-Z a-z")
	for key, value := range map[string]string{"filter.evil.clean": s.trap("clean", "cat"), "filter.evil.smudge": s.trap("smudge", "cat"),
		"merge.evil.driver": s.trap("driver", "true"), "core.fsmonitor": s.trap("monitor", "true"), "core.sshCommand": s.trap("fetch", "false"),
		"remote.origin.url": "ssh://localhost/nowhere", "remote.origin.promisor": "true"} {
		set(key, value)
	}
	s.git("config", "core.repositoryformatversion", "1")
	s.git("config", "extensions.partialClone", "origin")
	for _, name := range []string{"reference-transaction", "post-checkout", "post-index-change"} {
		path := filepath.Join(s.dir, ".git", "hooks", name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+s.trap("hook", "true")+"\n"), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, name := range s.trapsRun() {
		if err := os.Remove(filepath.Join(filepath.Dir(s.dir), "marks", name)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *repoBench) read(name string) string {
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(data)
}

// springTraps runs git as a user would, which runs the traps.
func (s *repoBench) springTraps() {
	for _, args := range [][]string{{"status"}, {"add", "-A"}, {"update-ref", "refs/heads/z", "HEAD"}, {"checkout", "-f", "HEAD~", "--", "README.md"},
		{"merge-tree", "--write-tree", "left", "right"}, {"cat-file", "-p", strings.Repeat("1", 40)}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = s.dir
		_ = cmd.Run() // some fail after they ran the trap
	}
}

// Missing blobs are not fetched: the run fails and says so.
func TestOrchestrationFetchesNothing(t *testing.T) {
	s := newRepoBench(t)
	s.setTraps(func(key, value string) { s.git("config", key, value) })
	blob := s.git("rev-parse", "HEAD:big.txt")
	if err := os.Remove(filepath.Join(s.dir, ".git", "objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	r, code, _ := s.run("do it", "--plan", s.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{part("one", orchestrate.Small, edit("big.txt", "line-010", "ONE"))}}))
	if code == 0 || r.Success {
		t.Errorf("exit %d: %s", code, r.Summary)
	}
	if got := s.trapsRun(); len(got) > 0 {
		t.Errorf("run: %v", got)
	}
}

// A directory that looks like a bare repository is not used as one: all parts
// work in the same directory, as without a repository.
func TestOrchestrationInPosingRepository(t *testing.T) {
	s := newRepoBench(t)
	mark := s.trap("monitor", "true")
	inner := filepath.Join(filepath.Dir(s.dir), "inner")
	if err := os.Rename(filepath.Join(s.dir, ".git"), inner); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n\tfsmonitor = %q\n", inner, mark)
	if err := os.WriteFile(filepath.Join(inner, "config"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	s.dir = inner
	r, code, types := s.run("do it", "--plan", s.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{
		part("one", orchestrate.Small, tool("create", map[string]string{"path": "one.txt", "file_text": "one\n"}))}}))
	if code != 0 || !r.Success || !slices.Contains(types, "notice") || s.read("one.txt") != "one\n" {
		t.Errorf("exit %d: %s", code, r.Summary)
	}
	if got := s.trapsRun(); len(got) > 0 {
		t.Errorf("run: %v", got)
	}
	s.springTraps()
	if got := s.trapsRun(); len(got) == 0 {
		t.Error("the trap does not work even with plain git")
	}
}

// The files that the parts leave are not written through a link, do not change
// the policy, and follow the user's own rules, whatever programs the parts ran.
func TestDeliveriesAreHeld(t *testing.T) {
	script := func(lines string) []string {
		return []string{tool("create", map[string]string{"path": "make.sh", "file_text": lines}), tool("bash", map[string]string{"command": "sh make.sh", "description": "x"})}
	}
	for name, tt := range map[string]struct {
		steps []string
		says  string
	}{
		"through a link": {script("echo nothing > .gitignore\nmkdir node_modules\necho evil > node_modules/x.js\n"), ""},
		"policy":         {script("echo 'writes: {}' > .agent-policy.yaml\n"), "only you may change"},
		"link out":       {script("ln -s ../../.. up\n"), "lead out of"},
		"denied place":   {script("mkdir locked\necho x > locked/x\n"), "locked/x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRepoBench(t)
			s.sandbox = "off" // in the sandbox, programs could not write the policy
			outside := filepath.Join(filepath.Dir(s.dir), "outside")
			if err := os.Mkdir(outside, 0o755); err != nil {
				t.Fatal(err)
			}
			s.write(".gitignore", "node_modules\n")
			s.write(".agent-policy.yaml", "writes: { deny: [\"locked/**\"] }\n")
			s.git("add", "-A")
			s.git("commit", "-q", "-m", "ignore")
			if err := os.Symlink(outside, filepath.Join(s.dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			r, code, _ := s.run("do it", "--yes", "--plan", s.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{part("one", orchestrate.Small, tt.steps...)}}))
			text := r.Summary
			for _, c := range r.Conflicts {
				text += "\n" + c.Message + " " + strings.Join(c.Paths, " ")
			}
			if code == 0 || r.Success || r.Done != 1 || !strings.Contains(text, tt.says) {
				t.Errorf("exit %d, %d done: %s", code, r.Done, text)
			}
			if got := s.git("status", "--porcelain"); got != "" {
				t.Errorf("something was written: %s", got)
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
				t.Errorf("%v %v", entries, err)
			}
			if err := os.Remove(filepath.Join(s.dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			if r, code, _ = s.run("--resume", "last", "--yes"); (code == 0) != (name == "through a link") {
				t.Errorf("exit %d: %s", code, r.Summary)
			}
			if got := s.read("node_modules/x.js"); (got == "evil\n") != (name == "through a link") {
				t.Error(got)
			}
		})
	}
}
