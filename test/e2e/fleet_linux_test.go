package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// fleetHub is a machine on which the hub of a fleet runs.
type fleetHub struct {
	*testHome
	repo *repoBench // a repository in its directory
	up   *exec.Cmd
}

// begin starts the hub, and waits until it listens.
func (h *fleetHub) begin(args ...string) {
	h.t.Helper()
	up, out := h.start(args...)
	if line, err := out.ReadBytes('\n'); err != nil || !bytes.Contains(line, []byte("tls://127.0.0.1:")) {
		h.t.Fatalf("%s: %v", line, err)
	}
	h.up = up
}

func newFleetHub(t *testing.T) *fleetHub {
	t.Helper()
	h := &fleetHub{testHome: newTestHome(t)}
	h.repo = &repoBench{t: t, dir: h.dir, home: h.home}
	h.repo.write("README.md", "hello\n")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.email", "a@example.com"}, {"config", "user.name", "a"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		h.repo.git(args...)
	}
	h.begin("fleet", "up", "--listen", "127.0.0.1:0", "--json")
	return h
}

// worker starts a worker of the fleet, with a home of its own, and waits until it
// takes tasks. What it says comes line by line.
func (h *fleetHub) worker(args ...string) (*exec.Cmd, *lines) {
	h.t.Helper()
	k := newTestHome(h.t)
	k.env = h.env
	cmd := k.command(append([]string{"worker", "--join", "-", "--demo"}, args...)...)
	cmd.Stdin = bytes.NewReader(h.run("fleet", "invite"))
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	l := follow(said)
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // may have ended already
		l.done.Wait()
		_ = cmd.Wait()
	})
	waitUntil(h.t, "the worker takes tasks: "+l.String(), func() bool { return strings.Contains(l.String(), "waits for tasks") })
	return cmd, l
}

// lines is what a program says.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	done sync.WaitGroup
}

func follow(r io.Reader) *lines {
	l := &lines{}
	l.done.Go(func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			l.mu.Lock()
			l.text.WriteString(s.Text() + "\n")
			l.mu.Unlock()
		}
	})
	return l
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// status is what "fleet status" says of the workers, by name.
func (h *fleetHub) status() map[string]string {
	h.t.Helper()
	var s struct {
		Workers []struct {
			Name             string
			Online, Draining bool
			Hello            *struct{ Draining bool }
		}
	}
	if err := json.Unmarshal(h.run("fleet", "status", "--json"), &s); err != nil {
		h.t.Fatal(err)
	}
	out := map[string]string{}
	for _, w := range s.Workers {
		switch {
		case !w.Online:
			out[w.Name] = "away"
		case w.Draining || w.Hello != nil && w.Hello.Draining:
			out[w.Name] = "draining"
		default:
			out[w.Name] = "online"
		}
	}
	return out
}

// orchestration starts orchestrate with --json, and returns what it comes to.
func (k *testHome) orchestration(args ...string) (cmd *exec.Cmd, result func() (orchestrate.Result, string)) {
	k.t.Helper()
	cmd = k.command(append([]string{"orchestrate", "--demo", "--json"}, args...)...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	wait := sync.OnceValue(cmd.Wait)
	k.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = wait() })
	return cmd, func() (r orchestrate.Result, said string) {
		_ = wait() // the result says how it ended
		all := strings.Split(strings.TrimSpace(out.String()), "\n")
		if err := json.Unmarshal([]byte(all[len(all)-1]), &r); err != nil {
			k.t.Errorf("%v: %s\n%s", err, out.String(), problem.String())
		}
		return r, problem.String()
	}
}

// A fleet of three machines on one: parts are done by workers, a worker's question
// is answered where the task was given, and another machine goes on when the one
// that gave it is killed.
func TestFleet(t *testing.T) {
	t.Parallel()
	h := newFleetHub(t)
	_, first := h.worker("--name", "one", "--capacity", "2", "--label", "gpu=yes")
	second, saidBySecond := h.worker("--name", "two")
	waitUntil(t, "both workers are there", func() bool { s := h.status(); return s["one"] == "online" && s["two"] == "online" })

	t.Run("a task", func(t *testing.T) {
		h.t = t
		plan := h.repo.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{
			part("a", orchestrate.Small, tool("create", map[string]string{"path": "a.txt", "file_text": "by a\n"})),
			part("b", orchestrate.Small, tool("create", map[string]string{"path": "b.txt", "file_text": "by b\n"})),
			part("c", orchestrate.Small, edit("a.txt", "by a", "by a and c"), tool("view", map[string]string{"path": "b.txt"})),
		}, Dependencies: map[string][]string{"c": {"a", "b"}}})
		_, result := h.orchestration("--fleet", "--plan", plan)
		r, said := result()
		if !r.Success || h.read("a.txt") != "by a and c\n" || h.read("b.txt") != "by b\n" {
			t.Fatalf("%+v\n%s\n%s%s", r, said, first, saidBySecond)
		}
		for _, task := range r.Tasks {
			if task.Worker != "one" && task.Worker != "two" {
				t.Errorf("%s was done by %q", task.ID, task.Worker)
			}
		}
		h.repo.checkClean()
	})
	t.Run("a question", func(t *testing.T) {
		h.t = t
		home := filepath.Join(h.home, ".copilot-bridge")
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() { live.Watch(ctx, home, 100*time.Millisecond, func() {}) })
		waitUntil(t, "the home is marked", func() bool { return live.Watched(home) })
		_, result := h.orchestration("--fleet", "--label", "gpu", "--plan", h.repo.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{part("q", orchestrate.Small, tool("bash", map[string]string{"command": "touch made", "description": "make it"}))}}))
		q := openQuestion(t, home)
		if !strings.HasPrefix(q.Lead, "Copilot, for q on one, wants to run: touch made") || strings.Contains(strings.Join(q.Answers, " "), live.Always) {
			t.Errorf("shown: %+v", q)
		}
		if err := live.Answer(home, q.ID, live.Reply{Answer: live.Once, By: "dashboard"}); err != nil {
			t.Fatal(err)
		}
		if r, said := result(); !r.Success || h.read("made") != "" {
			t.Errorf("%+v\n%s", r, said)
		}
	})
	t.Run("another machine goes on", func(t *testing.T) {
		h.t = t
		desk := newTestHome(t)
		join := desk.command("fleet", "join", "-", "--name", "desk")
		join.Stdin = bytes.NewReader(h.run("fleet", "invite", "--coordinator"))
		if out, err := join.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := exec.Command("git", "clone", "-q", h.dir, desk.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		plan := h.repo.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{
			part("early", orchestrate.Small, tool("create", map[string]string{"path": "early.txt", "file_text": "early\n"})),
			part("late", orchestrate.Small, "rehearsal: delay 3s\n"+tool("create", map[string]string{"path": "late.txt", "file_text": "late\n"})),
		}, Dependencies: map[string][]string{"late": {"early"}}})
		doomed, _ := h.orchestration("--fleet", "--plan", plan)
		begun := func() bool { return strings.Contains(first.String()+saidBySecond.String(), "late of run") }
		waitUntil(t, "the second part is begun", begun)
		if err := doomed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, result := desk.orchestration("--resume", "last")
		if r, said := result(); r.Success || !strings.Contains(said, "going on") {
			t.Errorf("it was taken over at once: %+v\n%s", r, said)
		}
		var r orchestrate.Result
		var said string
		waitUntil(t, "the run is taken over", func() bool {
			_, result := desk.orchestration("--resume", "last")
			r, said = result()
			return !strings.Contains(said, "going on")
		})
		if !r.Success || desk.read("early.txt") != "early\n" || desk.read("late.txt") != "late\n" {
			t.Errorf("%+v\n%s", r, said)
		}
		if n := strings.Count(first.String()+saidBySecond.String(), "early of run"); n != 2 { // begun, done
			t.Errorf("the workers spoke %d times of the finished part", n)
		}
	})
	h.t = t
	h.run("fleet", "drain", "two")
	saidBySecond.done.Wait()
	if err := second.Wait(); err != nil {
		t.Errorf("a worker that was drained: %v\n%s", err, saidBySecond)
	}
	h.run("fleet", "remove", "one", "--yes")
	waitUntil(t, "the worker that was removed ends", func() bool { return strings.Contains(first.String(), "removed") })
	if s := h.status(); s["one"] != "" || s["two"] == "online" {
		t.Errorf("afterwards: %v", s)
	}
}

func (k *testHome) read(name string) string {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		k.t.Fatal(err)
	}
	if err != nil {
		return "there is no " + name
	}
	return string(data)
}
