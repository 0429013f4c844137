package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// gitProbe is a program that a part runs in its worktree. It uses git, and tries to
// change the repository that the worktree belongs to. What comes of it is in
// probed.txt.
const gitProbe = `exec > probed.txt 2>&1
echo changed >> README.md
git status --short && git diff --stat && git log -1 --format=subject:%s
own=$(sed 's/gitdir: //' .git)
for dir in $own $own/../..; do
	[ -f $dir/HEAD ] || echo "$dir is not seen"
	for name in HEAD config config.worktree packed-refs new hooks/pre-commit info/exclude objects/new logs/new refs/heads/new; do
		{ : >> $dir/$name; } 2>/dev/null && echo "written: $dir/$name"
	done
done
git commit -q --allow-empty -m x 2>/dev/null && echo committed
git update-ref refs/heads/new HEAD 2>/dev/null && echo named
echo ended
`

// probePlan is one part that runs the probe.
func (s *repoBench) probePlan() string {
	s.write("probe.sh", gitProbe)
	s.git("add", "probe.sh")
	s.git("commit", "-q", "-m", "probe")
	return s.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{
		part("p", orchestrate.Small, tool("bash", map[string]string{"command": "bash probe.sh", "description": "look"}))}})
}

// probed checks what the probe came to: git can be used to look, and nothing of the
// repository can be changed.
func probed(t *testing.T, got string) {
	t.Helper()
	if !strings.Contains(got, " M README.md") || !strings.Contains(got, "1 file changed, 1 insertion(+)") || !strings.Contains(got, "subject:") || !strings.HasSuffix(got, "ended\n") {
		t.Errorf("git cannot be used:\n%s", got)
	}
	for _, word := range []string{"is not seen", "written", "committed", "named"} {
		if strings.Contains(got, word) {
			t.Errorf("%s:\n%s", word, got)
		}
	}
}

// In the sandbox, a part uses git to look at its worktree. It cannot change the
// repository.
func TestGitInPart(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	s := newRepoBench(t)
	s.sandbox = "require"
	if r, code, _ := s.run("look", "--plan", s.probePlan()); code != 0 {
		t.Fatalf("exit %d: %+v", code, r)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, "probed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	probed(t, string(data))
	s.checkClean()
}

// The same holds at a worker, where the repository is a mirror of the worker's.
func TestGitInPartOfWorker(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	h := newFleetHub(t)
	h.env = append(h.env, "COPILOT_BRIDGE_SANDBOX=require")
	_, said := h.worker("--name", "one")
	_, result := h.orchestration("--fleet", "--plan", h.repo.probePlan())
	if r, problem := result(); !r.Success {
		t.Fatalf("%+v\n%s\n%s", r, problem, said)
	}
	probed(t, h.read("probed.txt"))
}
