package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// work is a plan and the files that it makes.
type work struct {
	plan  orchestrate.TaskPlan
	begin map[string]string // the files of the repository, by path
	end   map[string]string
}

// makeWork is a plan of n tasks. Each makes a file. Half of them build on up to
// three others, and fill in a line in the file of each; every fifth changes a line
// of a file that all share. Some take a while.
func makeWork(rng *rand.Rand, n int) work {
	w := work{plan: orchestrate.TaskPlan{Dependencies: map[string][]string{}}, begin: map[string]string{"README.md": "hello\n"}}
	needs, neededBy := make([][]int, n), make([][]int, n)
	for i := range n {
		for range min(i, 3*(i%2)) {
			if on := max(0, i-1-rng.IntN(12)); !slices.Contains(needs[i], on) {
				needs[i], neededBy[on] = append(needs[i], on), append(neededBy[on], i)
			}
		}
	}
	w.begin["shared.txt"] = lines(n, func(i int) string { return "line " + taskID(i) })
	for i := range directories {
		w.begin[filepath.Join(filepath.Dir(fileOf(i)), "keep")] = "" // the tool makes no directories
	}
	w.end = maps.Clone(w.begin)
	for i := range n {
		id := taskID(i)
		made := lines(len(neededBy[i]), func(k int) string { return "room for " + taskID(neededBy[i][k]) })
		steps := []string{toolCall("create", "path", fileOf(i), "file_text", "made by "+id+"\n"+made)}
		w.end[fileOf(i)] = "made by " + id + "\n" + made
		change := func(path, from, to string) {
			steps = append(steps, toolCall("edit", "path", path, "old_str", from+"\n", "new_str", to+"\n"))
			w.end[path] = strings.Replace(w.end[path], from+"\n", to+"\n", 1)
		}
		for _, on := range needs[i] {
			w.plan.Dependencies[id] = append(w.plan.Dependencies[id], taskID(on))
			change(fileOf(on), "room for "+id, "used by "+id)
		}
		if i%5 == 0 {
			change("shared.txt", "line "+id, "changed by "+id)
		}
		if rng.IntN(4) == 0 {
			steps[0] = fmt.Sprintf("rehearsal: delay %dms\n%s", 100+rng.IntN(2000), steps[0])
		}
		w.plan.Tasks = append(w.plan.Tasks, orchestrate.SubTask{ID: id, EstimatedComplexity: orchestrate.Small,
			Description: "Part " + id + ".\n" + strings.Join(append(steps, "rehearsal: text "+id+" is done"), "\nrehearsal: next\n")})
	}
	return w
}

const directories = 7

func taskID(i int) string { return fmt.Sprintf("t%03d", i) }
func fileOf(i int) string { return fmt.Sprintf("made/%02d/%s.txt", i%directories, taskID(i)) }

// lines returns n lines, far enough apart that git merges changes to them.
func lines(n int, line func(int) string) string {
	var b strings.Builder
	for i := range n {
		for k := range 4 {
			fmt.Fprintf(&b, "%d.%d\n", i, k)
		}
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

// toolCall is a directive to the demo model to call a tool.
func toolCall(name string, keysAndValues ...string) string {
	args := map[string]string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		args[keysAndValues[i]] = keysAndValues[i+1]
	}
	data, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return "rehearsal: tool " + name + " " + string(data)
}

// writeRepository makes a git repository with the files in a host's home and
// returns its path. The commit is the same on all hosts.
func (w work) writeRepository(t *testing.T, h *fleettest.Host) string {
	t.Helper()
	dir := filepath.Join(h.Home, "repo")
	for name, text := range w.begin {
		writeFile(t, filepath.Join(dir, name), text)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.email", "a@example.com"}, {"config", "user.name", "a"}, {"add", "-A"},
		{"commit", "-q", "-m", "first"}} {
		git(t, h, args...)
	}
	return dir
}

// writePlan writes the plan into the host's home and returns its path.
func (w work) writePlan(t *testing.T, h *fleettest.Host) string {
	t.Helper()
	data, err := json.Marshal(w.plan)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.Home, "plan.json")
	writeFile(t, path, string(data))
	return path
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// git runs git in the repository of a host.
func git(t *testing.T, h *fleettest.Host, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := h.Run(ctx, filepath.Join(h.Home, "repo"), "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// checkTree compares the working tree of a host's repository with what the plan
// makes, and looks for what a run must not leave in a repository.
func (w work) checkTree(t *testing.T, h *fleettest.Host) {
	t.Helper()
	names := strings.Fields(git(t, h, "ls-files", "--cached", "--others", "--exclude-standard"))
	if want := slices.Sorted(maps.Keys(w.end)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("%s has %d files, want %d: %q", h.Name, len(names), len(want), names)
	}
	for name, want := range w.end {
		if got, err := os.ReadFile(filepath.Join(h.Home, "repo", name)); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", name, err, got, want)
		}
	}
	checkRepository(t, h)
}

// checkRepository looks for what a run must not leave in a repository.
func checkRepository(t *testing.T, h *fleettest.Host) {
	t.Helper()
	if out := git(t, h, "worktree", "list"); strings.Contains(out, "\n") {
		t.Errorf("%s: worktrees are left:\n%s", h.Name, out)
	}
	if out := git(t, h, "for-each-ref", "--format=%(refname)"); out != "refs/heads/main" {
		t.Errorf("%s: references are left:\n%s", h.Name, out)
	}
}

// TestPlanHere makes sure that the expected tree is that of a local run.
func TestPlanHere(t *testing.T) {
	seed := seedOf(t)
	net := fleettest.NewNetwork(t, 1, seed)
	h := newMachine(net.Host(1))
	w := makeWork(rand.New(rand.NewPCG(seed, 1)), tasks(t))
	dir := w.writeRepository(t, h)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	began := time.Now()
	if _, err := h.Run(ctx, dir, binary, "orchestrate", "all", "--plan", w.writePlan(t, h), "--demo", "--yes", "--json", "--max-concurrency", "4"); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tasks on one machine: %s", len(w.plan.Tasks), time.Since(began).Round(time.Millisecond))
	w.checkTree(t, h)
	if left := h.Left(); len(left) > 0 {
		t.Errorf("left on %s: %q", h.Name, left)
	}
}
