//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// repoBench is a repository in which the built program orchestrates the real
// runtime. Only the model's answers are scripted.
type repoBench struct {
	t         *testing.T
	dir, home string
	model     *demomodel.Server
	sandbox   string // "" for the default
}

func newRepoBench(t *testing.T) *repoBench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &repoBench{t: t, dir: filepath.Join(root, "repo"), home: filepath.Join(root, "home"), model: provider(t)}
	var big strings.Builder
	for i := range 120 {
		fmt.Fprintf(&big, "line-%03d\n", i)
	}
	s.write("big.txt", big.String())
	s.write("README.md", "hello\n")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.email", "a@example.com"}, {"config", "user.name", "a"},
		{"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		s.git(args...)
	}
	return s
}

func (s *repoBench) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *repoBench) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// tree returns all files with their contents.
func (s *repoBench) tree() string {
	s.t.Helper()
	var b strings.Builder
	for _, name := range strings.Fields(s.git("ls-files", "--cached", "--others", "--exclude-standard")) {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			continue // deleted
		}
		fmt.Fprintf(&b, "== %s\n%s", name, data)
	}
	return b.String()
}

func (s *repoBench) command(args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(binary, append([]string{"orchestrate"}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "COPILOT_BRIDGE_SANDBOX=" + s.sandbox, "HOME=" + s.home, "TMPDIR=" + os.TempDir(), "COPILOT_BRIDGE_HOME=" + filepath.Join(s.home, "bridge"),
		"COPILOT_CLI_PATH=" + runtimetest.Path(s.t), "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + s.model.URL(),
		"COPILOT_BYOK_API_KEY=" + s.model.Key(), "COPILOT_BYOK_MODEL=" + s.model.Model()}
	if err := os.MkdirAll(s.home, 0o755); err != nil {
		s.t.Fatal(err)
	}
	return cmd
}

// run runs the program with --json and returns its last line, its exit code and
// the types of its events.
func (s *repoBench) run(args ...string) (r orchestrate.Result, code int, types []string) {
	s.t.Helper()
	cmd := s.command(append(args, "--json")...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	timer := time.AfterFunc(8*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Run() // checked by the exit code
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(line), &head); err != nil {
			s.t.Fatalf("%v: %s\n%s", err, line, problem.String())
		}
		types = append(types, head.Type)
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || types[len(types)-1] != "result" {
		s.t.Fatalf("%v: %s", err, lines[len(lines)-1])
	}
	if s.t.Failed() || code != 0 {
		s.t.Log(problem.String())
	}
	return r, cmd.ProcessState.ExitCode(), types
}

func (s *repoBench) plan(p orchestrate.TaskPlan) string {
	s.t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(s.dir), "plan.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *repoBench) checkClean() {
	s.t.Helper()
	if out := s.git("worktree", "list"); strings.Contains(out, "\n") {
		s.t.Errorf("worktrees are left:\n%s", out)
	}
	if out := s.git("branch", "--list"); out != "* main" {
		s.t.Errorf("branches are left:\n%s", out)
	}
}

// tool is a rehearsal directive that calls a tool.
func tool(name string, args map[string]string) string {
	data, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return "rehearsal: tool " + name + " " + string(data)
}

func edit(path, old, text string) string {
	return tool("edit", map[string]string{"path": path, "old_str": old + "\n", "new_str": text + "\n"})
}

func part(id string, size orchestrate.Complexity, steps ...string) orchestrate.SubTask {
	return orchestrate.SubTask{ID: id, EstimatedComplexity: size,
		Description: "Part " + id + ".\n" + strings.Join(steps, "\nrehearsal: next\n") + "\nrehearsal: next\nrehearsal: text " + id + " is done"}
}

// twelvePartPlan is a plan of two diamonds, one above the other. Every part
// edits its own place in big.txt, and some parts add files or change files of
// other parts.
func twelvePartPlan() orchestrate.TaskPlan {
	p := orchestrate.TaskPlan{Dependencies: map[string][]string{}}
	line := func(i int) string { return fmt.Sprintf("line-%03d", i) }
	for i := range 12 {
		id := fmt.Sprintf("p%d", i)
		steps := []string{edit("big.txt", line(10*i), "edited by "+id)}
		switch i {
		case 0, 6:
			steps = append(steps, tool("create", map[string]string{"path": "made-" + id + ".txt", "file_text": "by " + id + "\nend\n"}))
		case 5, 11:
			steps = append(steps, edit(fmt.Sprintf("made-p%d.txt", i/6*6), "end", "end, says "+id))
		}
		p.Tasks = append(p.Tasks, part(id, []orchestrate.Complexity{orchestrate.Small, orchestrate.Medium, orchestrate.Large}[i%3], steps...))
		switch {
		case i == 6:
			p.Dependencies[id] = []string{"p5"}
		case i%6 == 5:
			for j := i - 4; j < i; j++ {
				p.Dependencies[id] = append(p.Dependencies[id], fmt.Sprintf("p%d", j))
			}
		case i%6 > 0:
			p.Dependencies[id] = []string{fmt.Sprintf("p%d", i/6*6)}
		}
	}
	return p
}

func TestTwelveInParallelAsInSequence(t *testing.T) {
	trees := map[string]string{}
	for _, how := range [][]string{{"--max-concurrency", "1", "--isolation", "shared"}, {"--max-concurrency", "1"}, {"--max-concurrency", "4"}} {
		s := newRepoBench(t)
		s.write("README.md", "hello\nmine, uncommitted\n")
		r, code, types := s.run(append([]string{"do it all", "--plan", s.plan(twelvePartPlan())}, how...)...)
		if code != 0 || !r.Success || r.Done != 12 || len(r.CriticalPath) != 6 {
			t.Fatalf("%v: exit %d: %+v", how, code, r)
		}
		for _, want := range []string{"run_start", "plan_ready", "task_start", "task_progress", "task_complete", "plan_complete", "result"} {
			if !slices.Contains(types, want) {
				t.Errorf("%v: the events lack %s", how, want)
			}
		}
		trees[strings.Join(how, " ")] = s.tree()
		s.checkClean()
		t.Logf("%v: %s, one after another %s: %.2f times as fast", how, r.Duration.Round(time.Millisecond), r.Sequential.Round(time.Millisecond), r.Speedup)
	}
	want := trees["--max-concurrency 1 --isolation shared"]
	if strings.Count(want, "edited by p") != 12 || !strings.Contains(want, "end, says p11") || !strings.Contains(want, "mine, uncommitted") {
		t.Fatalf("the sequence itself is wrong:\n%s", want)
	}
	for how, got := range trees {
		if got != want {
			t.Errorf("%s: the tree differs:\n%s\nwant:\n%s", how, got, want)
		}
	}
}

func TestPlantedFailureSkipsItsDependents(t *testing.T) {
	s := newRepoBench(t)
	p := twelvePartPlan()
	p.Tasks[7].Description = "rehearsal: status 401 no entry" // p11 depends on p7
	r, code, _ := s.run("do it all", "--plan", s.plan(p), "--max-concurrency", "4")
	if code != 5 || r.Success || r.Done != 10 || r.Failed != 1 || r.Skipped != 1 {
		t.Fatalf("exit %d: %+v", code, r)
	}
	for _, x := range r.Tasks {
		want := orchestrate.Done
		switch x.ID {
		case "p7":
			want = orchestrate.Failed
		case "p11":
			want = orchestrate.Skipped
		}
		if x.State != want {
			t.Errorf("%s: %s", x.ID, x.State)
		}
	}
	if got := strings.Count(s.tree(), "edited by p"); got != 10 {
		t.Errorf("%d edits were merged", got)
	}
}

func conflictPlan() orchestrate.TaskPlan {
	return orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{
		part("red", orchestrate.Small, edit("big.txt", "line-050", "RED")),
		part("blue", orchestrate.Small, edit("big.txt", "line-050", "BLUE")),
		part("after", orchestrate.Small, edit("big.txt", "line-000", "AFTER")),
	}, Dependencies: map[string][]string{"after": {"red", "blue"}}}
}

func TestPlantedConflict(t *testing.T) {
	t.Run("resolved", func(t *testing.T) {
		s := newRepoBench(t)
		var asked atomic.Int32
		s.model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
			if !strings.HasPrefix(r.LastUser(), "Two parts of a larger task") {
				return nil, false
			}
			if r.ToolResults() != nil {
				return demomodel.Reply{demomodel.Text("Both are in.")}, true
			}
			asked.Add(1)
			// A good model removes the conflict markers and keeps both sides.
			dirs, err := filepath.Glob(filepath.Join(s.home, "bridge", "worktrees", "*", "conflict-*", "big.txt"))
			if err != nil || len(dirs) != 1 {
				return demomodel.Reply{demomodel.Text("There is nothing to resolve.")}, true
			}
			data, err := os.ReadFile(dirs[0])
			if err != nil {
				return demomodel.Reply{demomodel.Text(err.Error())}, true
			}
			_, rest, _ := strings.Cut(string(data), "<<<<<<< ")
			block, _, _ := strings.Cut(rest, ">>>>>>> ")
			tail := rest[len(block):]
			tail = tail[:strings.Index(tail, "\n")+1]
			return demomodel.Reply{demomodel.ToolCall("edit", map[string]string{"path": "big.txt", "old_str": "<<<<<<< " + block + tail, "new_str": "RED\nBLUE\n"})}, true
		})
		r, code, types := s.run("colour it", "--plan", s.plan(conflictPlan()))
		if code != 0 || !r.Success || asked.Load() != 1 || len(r.Conflicts) != 1 || !r.Conflicts[0].Resolved || !slices.Contains(types, "conflict") {
			t.Fatalf("exit %d, asked %d times: %+v", code, asked.Load(), r)
		}
		if got := s.tree(); !strings.Contains(got, "line-049\nRED\nBLUE\nline-051\n") || !strings.Contains(got, "AFTER\n") {
			t.Errorf("%s", got)
		}
		s.checkClean()
	})
	t.Run("reported", func(t *testing.T) {
		s := newRepoBench(t) // this model repeats prompts that it does not understand
		r, code, _ := s.run("colour it", "--plan", s.plan(conflictPlan()))
		if code != 5 || r.Success || len(r.Conflicts) != 1 || r.Conflicts[0].Resolved || len(r.Kept) != 1 {
			t.Fatalf("exit %d: %+v", code, r)
		}
		mine, kept := s.tree(), s.git("show", r.Kept[0]+":big.txt")
		if strings.Contains(mine, "RED") == strings.Contains(kept, "RED") || strings.Contains(mine, "BLUE") == strings.Contains(kept, "BLUE") || strings.Contains(mine, "<<<<<<<") {
			t.Errorf("a side is lost:\n%s\n%s", mine, kept)
		}
	})
}

// The model makes the plan: in prose, in a code block, at the second attempt,
// or not at all.
func TestPlansOfTheModel(t *testing.T) {
	good := `{"tasks":[{"id":"one","description":"rehearsal: tool create {\"path\":\"one.txt\",\"file_text\":\"1\\n\"}\nrehearsal: next\nrehearsal: text made one.txt","estimatedComplexity":"S"},` +
		`{"id":"two","description":"rehearsal: tool create {\"path\":\"two.txt\",\"file_text\":\"2\\n\"}\nrehearsal: next\nrehearsal: text made two.txt","estimatedComplexity":"S"}],"dependencies":[{"task":"two","dependsOn":["one"]}]}`
	for name, tt := range map[string]struct {
		first, second string
		tasks         int
		turns         int32
	}{
		"fenced":   {"Here you are:\n```json\n" + good + "\n```\n", "", 2, 1},
		"repaired": {strings.Replace(good, `"dependsOn":["one"]`, `"dependsOn":["three"]`, 1), good, 2, 2},
		"refused":  {"refuse", "```\n" + good + "\n```", 2, 2},
		"given up": {"I would rather not.", "Really not.", 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRepoBench(t)
			var turns atomic.Int32
			var schema, hasContext atomic.Bool
			s.model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
				switch user := r.LastUser(); {
				case strings.HasPrefix(user, "Divide the task below"):
					turns.Add(1)
					bound := bytes.Contains(r.Raw, []byte(`"json_schema"`))
					schema.Store(schema.Load() || bound)
					switch {
					case tt.first == "refuse" && bound:
						return demomodel.Reply{demomodel.Status(400, "response_format is not supported")}, true
					case tt.first == "refuse":
						return demomodel.Reply{demomodel.Text(tt.second)}, true
					}
					return demomodel.Reply{demomodel.Text(tt.first)}, true
				case strings.HasPrefix(user, "This is not a plan"):
					turns.Add(1)
					hasContext.Store(strings.Contains(user, `depends on "three"`) || strings.Contains(user, "no JSON object"))
					return demomodel.Reply{demomodel.Text(tt.second)}, true
				case strings.Contains(user, `"two"`), strings.Contains(user, "Your part, two"):
					if !strings.Contains(user, "- one:\n> made one.txt") {
						t.Errorf("the prompt of the second part lacks the first:\n%s", user)
					}
				}
				return nil, false
			})
			r, code, _ := s.run("make two files")
			if code != 0 || len(r.Tasks) != tt.tasks || turns.Load() != tt.turns || !schema.Load() || hasContext.Load() != (tt.turns == 2 && tt.first != "refuse") {
				t.Fatalf("exit %d, %d turns, schema %v, told %v: %+v", code, turns.Load(), schema.Load(), hasContext.Load(), r)
			}
			if tt.tasks == 2 && !strings.Contains(s.tree(), "== two.txt\n2\n") {
				t.Errorf("%s", s.tree())
			}
		})
	}
}

// The test kills the program and the runtime below it with SIGKILL.
func TestOrchestrateKilled(t *testing.T) {
	want := ""
	for round := range 4 {
		s := newRepoBench(t)
		args := []string{"do it all", "--plan", s.plan(twelvePartPlan()), "--json"}
		if round > 0 {
			for kills := 0; kills < 2; kills++ {
				cmd := s.command(args...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				timer := time.AfterFunc(time.Duration(300+rand.IntN(2500))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				_ = cmd.Wait() // killed, or done before
				timer.Stop()
				if _, err := orchestrate.FindRun(filepath.Join(s.home, "bridge"), "last"); err == nil {
					args = []string{"--resume", "last", "--json"}
				}
			}
		}
		r, code, _ := s.run(args...)
		if code != 0 || !r.Success {
			for _, x := range r.Tasks {
				if x.State != orchestrate.Done {
					t.Logf("%s: %s: %v, said %q", x.ID, x.State, x.Error, x.Summary)
				}
			}
			t.Fatalf("round %d: exit %d: %s", round, code, r.Summary)
		}
		if round == 0 {
			want = s.tree()
		} else if got := s.tree(); got != want {
			t.Errorf("round %d: the tree differs:\n%s", round, got)
		}
		s.checkClean()
	}
}

// A part cannot reach out of its worktree, not even into the user's own tree,
// and the policy of the workspace applies there.
func TestPartsAreGuarded(t *testing.T) {
	s := newRepoBench(t)
	s.write(".agent-policy.yaml", "writes: { deny: [\"locked/**\"] }\n")
	var parts []orchestrate.SubTask
	for id, path := range map[string]string{"outside": filepath.Join(s.dir, "evil.txt"), "home": filepath.Join(s.home, "bridge", "policy.yaml"),
		"locked": "locked/x.txt", "policy": ".agent-policy.yaml.tmp/../.agent-policy.yaml", "git": ".git"} {
		parts = append(parts, part(id, orchestrate.Small, tool("create", map[string]string{"path": path, "file_text": "evil\n"})))
	}
	parts = append(parts, part("fine", orchestrate.Small, tool("create", map[string]string{"path": "fine.txt", "file_text": "fine\n"})))
	r, code, _ := s.run("try it", "--plan", s.plan(orchestrate.TaskPlan{Tasks: parts}), "--yes", "--max-concurrency", "6")
	if code != 5 || r.Done != 1 || r.Failed != 5 {
		t.Errorf("exit %d: %s", code, r.Summary)
	}
	for _, x := range r.Tasks {
		if x.ID != "fine" && (x.Error == nil || x.Error.Code != "denied") {
			t.Errorf("%s: %s %v", x.ID, x.State, x.Error)
		}
	}
	if got := s.git("status", "--porcelain"); got != "?? .agent-policy.yaml\n?? fine.txt" {
		t.Error(got)
	}
}
