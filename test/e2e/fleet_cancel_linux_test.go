package e2e

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// What nobody wants any more ends on the worker at once, whoever says so. A run
// tells of a hub that is away, and a machine that was removed can join again.
func TestFleetEnds(t *testing.T) {
	t.Parallel()
	whole, h := t, newFleetHub(t)
	cmd, said := h.worker("--name", "one")
	home := strings.TrimPrefix(cmd.Env[0], "HOME=")
	sleeps := func(seconds string) func() bool {
		return func() bool { return len(processes(t, home, "sleep "+seconds)) > 0 }
	}
	gone := func(what, seconds string, begun time.Time) {
		waitUntil(t, what+": the command on the worker ends", func() bool { return !sleeps(seconds)() })
		t.Logf("%s: the command is gone after %s", what, time.Since(begun).Round(time.Millisecond))
	}
	sleeping := func(seconds string) string {
		return tool("bash", map[string]string{"command": "sleep " + seconds, "description": "sleep"})
	}

	t.Run("Ctrl-C", func(t *testing.T) {
		h.t = t
		run, result := h.orchestration("--fleet", "--yes", "--plan", h.repo.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{part("a", orchestrate.Small, sleeping("98761"))}}))
		waitUntil(t, "the command runs", sleeps("98761"))
		begun := time.Now()
		if err := run.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		gone("Ctrl-C", "98761", begun)
		if r, out := result(); r.Success || run.ProcessState.ExitCode() != 130 {
			t.Errorf("%+v\n%s", r, out)
		}
	})
	t.Run("the client leaves", func(t *testing.T) {
		h.t = t
		server, url := h.serve("--read-write")
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		before := said.String()
		body := `{"model":"agent/rehearsal-1@any","messages":[{"role":"user","content":"rehearsal: delay 90s\nrehearsal: text late"}]}`
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answered := make(chan error, 1)
		go func() { // ends with ctx
			res, err := http.DefaultClient.Do(r)
			if err == nil {
				err = errors.Join(errors.New("it was answered with "+res.Status), res.Body.Close())
			}
			answered <- err
		}()
		waitUntil(t, "the worker has begun", func() bool { return len(said.String()) > len(before) })
		begun := time.Now()
		leave()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Fatalf("%v\n%s", err, said)
		}
		waitUntil(t, "the worker has ended the task", func() bool { return strings.Contains(said.String()[len(before):], "canceled after") })
		t.Logf("the session on the worker ends %s after the client left", time.Since(begun).Round(time.Millisecond))
		waitUntil(t, "nothing is left to resume", func() bool { return !bytes.Contains(h.run("orchestrate", "--list", "--json"), []byte("delay 90s")) })
		if status, text := h.chat(url, "agent/rehearsal-1@", "x", false); status != http.StatusBadRequest || !strings.Contains(text, "names no worker") {
			t.Errorf("%d %s", status, text)
		}
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	t.Run("the hub goes away and comes back", func(t *testing.T) {
		h.t = t
		plan := h.repo.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{
			part("a", orchestrate.Small, "rehearsal: delay 2s\n"+tool("create", map[string]string{"path": "a.txt", "file_text": "a\n"})),
			part("b", orchestrate.Small, tool("create", map[string]string{"path": "b.txt", "file_text": "b\n"})),
		}, Dependencies: map[string][]string{"b": {"a"}}})
		run := h.command("orchestrate", "--demo", "--fleet", "--plan", plan)
		out, err := run.StderrPipe()
		if err == nil {
			err = run.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		shown := follow(out)
		waitUntil(t, "the worker has begun", func() bool { return strings.Contains(shown.String(), "● a on one") })
		if err := h.up.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "the run tells of it", func() bool { return strings.Contains(shown.String(), "the fleet cannot be reached") })
		_ = h.up.Wait() // it was told to end
		h.t = whole     // the hub outlives this test
		h.begin("fleet", "up", "--json")
		shown.done.Wait()
		if err := run.Wait(); err != nil || !strings.Contains(shown.String(), "the fleet is back") || strings.Contains(shown.String(), "nats:") || h.read("b.txt") != "b\n" {
			t.Errorf("%v\n%s", err, shown)
		}
	})
	t.Run("a machine that was removed", func(t *testing.T) {
		h.t = t
		waitUntil(t, "the worker is back", func() bool { return h.status()["one"] == "online" })
		again := func(args ...string) (string, error) {
			second := h.command(append([]string{"worker", "--demo"}, args...)...)
			second.Env, second.Stdin = cmd.Env, bytes.NewReader(h.run("fleet", "invite"))
			out, err := second.CombinedOutput()
			return string(out), err
		}
		if out, err := again(); err == nil || !strings.Contains(out, "is running already") {
			t.Errorf("a second worker in the same home: %v\n%s", err, out)
		}
		h.run("fleet", "remove", "one", "--yes")
		said.done.Wait()
		if out, err := again(); err == nil || !strings.Contains(out, "it was removed") || strings.Contains(out, "nats:") {
			t.Errorf("%v\n%s", err, out)
		}
		joins := h.command("worker", "--demo", "--name", "one", "--join", "-")
		joins.Env, joins.Stdin = cmd.Env, bytes.NewReader(h.run("fleet", "invite"))
		out, err := joins.StderrPipe()
		if err == nil {
			err = joins.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		shown := follow(out)
		waitUntil(t, "it joins again: "+shown.String(), func() bool { return strings.Contains(shown.String(), "waits for tasks") })
		_ = joins.Process.Signal(os.Interrupt)
		shown.done.Wait()
		if err := joins.Wait(); err != nil {
			t.Errorf("%v\n%s", err, shown)
		}
	})
}
