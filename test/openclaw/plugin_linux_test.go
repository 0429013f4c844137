package openclaw

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

const child = "mcp plugin"

// TestPlugin tests the plugin in the real gateway, with the real Copilot
// runtime. The subtests share one gateway, because it takes half a minute to
// start.
func TestPlugin(t *testing.T) {
	b := newBench(t)
	t.Run("nothing runs before the first call", func(t *testing.T) {
		if p := b.processes(child); len(p) != 0 {
			t.Errorf("%v", p)
		}
	})
	t.Run("copilot_code", b.code)
	t.Run("bad input", b.badInput)
	t.Run("copilot_code_verbose streams", b.verbose)
	t.Run("the agent delegates by itself", b.agent)
	t.Run("abort while the model thinks", b.abortModel)
	t.Run("abort while a command runs", b.abortCommand)
	t.Run("copilot_orchestrate", b.orchestrate)
	t.Run("the child is killed", b.kill)
	t.Run("another binary", b.binaries)
	t.Run("the gateway stops", b.stop)
}

func (b *bench) code(t *testing.T) {
	o := b.invoke(t, "copilot_code", map[string]any{"task": "create hello.txt saying hi"})
	if text, err := os.ReadFile(filepath.Join(b.workspace, "hello.txt")); err != nil || string(text) != "hi\n" {
		t.Errorf("%q, %v: %+v", text, err, o)
	}
	if !o.Details.OK || o.Details.Status != "ok" || !strings.Contains(o.text(), "Tool calls:\n1. `create`: ") || !strings.Contains(o.text(), " tokens in, ") {
		t.Errorf("%+v", o)
	}
	var result struct {
		FilesChanged []string
		SessionID    string
	}
	if err := json.Unmarshal(o.Details.Result, &result); err != nil || len(result.FilesChanged) != 1 || result.SessionID == "" {
		t.Errorf("%v: %s", err, o.Details.Result)
	}
	if p := b.processes(child); len(p) != 1 {
		t.Errorf("the gateway has %d child processes", len(p))
	}
	before := b.processes(child)
	b.invoke(t, "copilot_code", map[string]any{"task": "rehearsal: text Again."})
	if after := b.processes(child); !slices.Equal(after, before) {
		t.Errorf("the child process was %v and is %v", before, after)
	}
}

func (b *bench) badInput(t *testing.T) {
	b.write(t, filepath.Join(b.workspace, "locked", ".agent-policy.yaml"), "writes: { deny: ['**'] }\n")
	b.write(t, filepath.Join(b.workspace, "file.txt"), "")
	for _, tt := range []struct {
		tool         string
		args         any
		status, text string
	}{
		{"copilot_code", map[string]any{}, "invalid", "task"},
		{"copilot_code", map[string]any{"task": ""}, "invalid", "task"},
		{"copilot_code", map[string]any{"task": 7}, "invalid", "want \"string\""},
		{"copilot_code", map[string]any{"task": []any{"a"}}, "invalid", "want \"string\""},
		{"copilot_code", map[string]any{"task": "x", "timeout": "soon"}, "invalid", "timeout"},
		{"copilot_code", map[string]any{"task": "x", "timeout": -1}, "invalid", "timeout"},
		{"copilot_code", map[string]any{"task": "x", "other": true}, "invalid", "other"},
		{"copilot_code_verbose", map[string]any{"task": nil}, "invalid", "task"},
		{"copilot_code", map[string]any{"task": "x", "workingDir": "none"}, "invalid", `there is no directory "none"`},
		{"copilot_code", map[string]any{"task": "x", "workingDir": "file.txt"}, "invalid", "is not a directory"},
		{"copilot_code", map[string]any{"task": "x", "workingDir": "/etc"}, "denied", "is outside the workspace"},
		{"copilot_code", map[string]any{"task": "x", "_depth": 3}, "denied", "that is a loop"},
		{"copilot_orchestrate", map[string]any{"task": "x", "maxConcurrency": 0}, "invalid", "maxConcurrency"},
		{"copilot_orchestrate", map[string]any{"task": "x", "_depth": 3}, "denied", "that is a loop"},
		{"copilot_code", map[string]any{"task": "create no.txt saying no", "workingDir": "locked"}, "denied", "has a policy of its own"},
		// The policy denies every call of this prompt.
		{"copilot_code", map[string]any{"task": "rehearsal: tool bash {\"command\":\"curl http://127.0.0.1:1/\",\"description\":\"fetch\"}\nrehearsal: next\nrehearsal: text So be it."}, "denied", "So be it."},
		{"copilot_code", map[string]any{"task": "rehearsal: silence", "timeout": 1500}, "timeout", "took longer than 1.5s"},
		{"copilot_code", map[string]any{"task": "rehearsal: status 400 broken"}, "failed", "broken"},
	} {
		o := b.invoke(t, tt.tool, tt.args)
		if o.Details.OK || o.Details.Status != tt.status || o.Details.Error == "" || !strings.Contains(o.text(), tt.text) || o.Details.TimedOut != (tt.status == "timeout") {
			t.Errorf("%s %v: %+v", tt.tool, tt.args, o)
		}
	}
	if _, err := os.Stat(filepath.Join(b.workspace, "locked", "no.txt")); err == nil {
		t.Error("a denied call was executed")
	}
	// The plugin still works after these failures.
	if o := b.invoke(t, "copilot_code", map[string]any{"task": "rehearsal: text Well."}); !o.Details.OK || !strings.HasPrefix(o.text(), "Well.") {
		t.Errorf("%+v", o)
	}
}

// delegateMessage is a user message that has the agent call a tool.
func delegateMessage(t *testing.T, tool string, args map[string]any) string {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return delegate + tool + " " + string(data)
}

// chat starts a turn of OpenClaw's agent in a new session.
func (b *bench) chat(t *testing.T, s *openclawtest.Socket, session, message string) (run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run = session + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if _, err := s.Call(ctx, "chat.send", map[string]any{"sessionKey": session, "message": message, "idempotencyKey": run}); err != nil {
		t.Fatal(err)
	}
	return run
}

// toolEvent is a gateway event about a running tool.
type toolEvent struct {
	RunID  string `json:"runId"`
	Stream string
	Data   struct {
		Phase, Name   string
		PartialResult outcome
		Result        outcome
	}
}

func (b *bench) verbose(t *testing.T) {
	s := b.gateway.Connect(t)
	b.chat(t, s, "agent:main:verbose", delegateMessage(t, "copilot_code_verbose", map[string]any{"task": "create steps.txt saying one"}))
	var seen []string
	s.Wait(t, "the result", func(e openclawtest.Event) bool {
		var got toolEvent
		if e.Name != "agent" && e.Name != "session.tool" || json.Unmarshal(e.Payload, &got) != nil || got.Stream != "tool" {
			return false
		}
		if got.Data.Phase == "update" {
			seen = append(seen, got.Data.PartialResult.text())
		}
		return got.Data.Phase == "result"
	})
	all := strings.Join(seen, "\n--\n")
	if !strings.Contains(all, "1. session `") || !strings.Contains(all, "2. `create`: ") {
		t.Errorf("the updates are %s", all)
	}
	if _, err := os.Stat(filepath.Join(b.workspace, "steps.txt")); err != nil {
		t.Error(err)
	}
	o := b.invoke(t, "copilot_code_verbose", map[string]any{"task": "create more.txt saying two"})
	if text := o.text(); !strings.Contains(text, "Steps:\n1. session `") || !strings.Contains(text, "\n2. `create`: ") || !strings.Contains(text, "\n3. says: ") {
		t.Errorf("%s", text)
	}
}

func (b *bench) agent(t *testing.T) {
	out := b.user.Run(t, "agent", "--agent", "main", "--session-key", "agent:main:delegates", "--message", delegateMessage(t, "copilot_code", map[string]any{"task": "create byagent.txt saying done"}), "--json")
	if text, err := os.ReadFile(filepath.Join(b.workspace, "byagent.txt")); err != nil || string(text) != "done\n" {
		t.Errorf("%q, %v", text, err)
	}
	if !strings.Contains(out, "The tool said: ") || !strings.Contains(out, "created byagent.txt") {
		t.Errorf("the agent answered %s", out)
	}
}

// abort starts a task, waits until it runs, and aborts the agent's turn.
func (b *bench) abort(t *testing.T, session, task string, atWork func() bool) {
	t.Helper()
	s := b.gateway.Connect(t)
	run := b.chat(t, s, session, delegateMessage(t, "copilot_code", map[string]any{"task": task}))
	waitUntil(t, "the task begins", atWork)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if answer, err := s.Call(ctx, "chat.abort", map[string]any{"sessionKey": session, "runId": run}); err != nil {
		t.Fatal(err)
	} else if !strings.Contains(string(answer), `"aborted":true`) {
		t.Fatalf("chat.abort: %s", answer)
	}
	waitUntil(t, "the task ends", func() bool { return !atWork() })
}

func (b *bench) abortModel(t *testing.T) {
	if n := b.asked.Load(); n != 0 {
		t.Fatalf("%d requests are in progress", n)
	}
	b.abort(t, "agent:main:abort-model", "rehearsal: silence", func() bool { return b.asked.Load() > 0 })
	// The directory is unlocked for the next task.
	if o := b.invoke(t, "copilot_code", map[string]any{"task": "rehearsal: text Next."}); !o.Details.OK {
		t.Errorf("%+v", o)
	}
}

func (b *bench) abortCommand(t *testing.T) {
	const command = "sleep 1234"
	b.abort(t, "agent:main:abort-command", `rehearsal: tool bash {"command":"`+command+`","description":"wait","mode":"sync","initial_wait":600}`,
		func() bool { return len(b.processes(command)) > 0 })
	waitUntil(t, "no request to the model is left", func() bool { return b.asked.Load() == 0 })
}

func (b *bench) orchestrate(t *testing.T) {
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
		cmd.Dir, cmd.Env = b.workspace, b.user.Environ()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "first")
	o := b.invoke(t, "copilot_orchestrate", map[string]any{"task": "create a.txt saying hi and create b.txt saying ho, then create c.txt saying end", "maxConcurrency": 2})
	var result struct {
		Success      bool
		Plan         []struct{ ID string }
		Tasks        []struct{ ID, State string }
		FilesChanged []string
		RunID        string
	}
	if err := json.Unmarshal(o.Details.Result, &result); err != nil || !o.Details.OK || !result.Success || len(result.Plan) != 3 || len(result.Tasks) != 3 || result.RunID == "" {
		t.Fatalf("%v: %+v\n%s", err, o, o.Details.Result)
	}
	for _, task := range result.Tasks {
		if task.State != "done" {
			t.Errorf("%+v", task)
		}
	}
	for name, want := range map[string]string{"a.txt": "hi\n", "b.txt": "ho\n", "c.txt": "end\n"} {
		if text, err := os.ReadFile(filepath.Join(b.workspace, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if text := o.text(); !strings.Contains(text, "3 of 3 tasks done") || !strings.Contains(text, "times as fast as one after another") {
		t.Errorf("%s", text)
	}
	if list := strings.TrimSpace(git("worktree", "list")); strings.Count(list, "\n") != 0 {
		t.Errorf("worktrees are left: %s", list)
	}
}

func (b *bench) kill(t *testing.T) {
	before := b.processes(child)
	if len(before) != 1 {
		t.Fatalf("the gateway has %d child processes", len(before))
	}
	type answer struct {
		o   outcome
		err error
	}
	under := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		o, err := b.try(ctx, "copilot_code", map[string]any{"task": "rehearsal: silence"})
		under <- answer{o, err}
	}()
	waitUntil(t, "the task begins", func() bool { return b.asked.Load() > 0 })
	runtimes := b.processes(filepath.Base(runtimetest.Path(t)))
	if len(runtimes) == 0 {
		t.Error("found no runtime process")
	}
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a := <-under
	if a.err != nil || a.o.Details.OK || !strings.Contains(a.o.text(), "was ended by SIGKILL") || !strings.Contains(a.o.text(), "What to do: try again") {
		t.Errorf("%+v", a)
	}
	if o := b.invoke(t, "copilot_code", map[string]any{"task": "rehearsal: text Back."}); !o.Details.OK || !strings.HasPrefix(o.text(), "Back.") {
		t.Errorf("%+v", o)
	}
	if after := b.processes(child); len(after) != 1 || after[0] == before[0] {
		t.Errorf("the child process was %v and is %v", before, after)
	}
	waitUntil(t, "the runtime of the dead one is gone", func() bool {
		return !slices.ContainsFunc(b.processes(filepath.Base(runtimetest.Path(t))), func(id int) bool { return slices.Contains(runtimes, id) })
	})
}

// A missing or wrong binary leads to a result that says so. The gateway accepts
// new settings while it runs.
func (b *bench) binaries(t *testing.T) {
	old := filepath.Join(b.user.Home, "old-bridge")
	b.write(t, old, "#!/bin/sh\necho 'unknown command \"plugin\"' >&2\nexit 2\n")
	other := filepath.Join(b.user.Home, "other")
	b.write(t, other, "#!/bin/sh\nread line\necho '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"serverInfo\":{\"name\":\"other\",\"version\":\"9\"}}}'\ncat >/dev/null\n")
	// A program that does not exit when asked, and whose child process keeps
	// its pipes open.
	slow := filepath.Join(b.user.Home, "slow-bridge")
	b.write(t, slow, "#!/bin/sh\n"+binary+" \"$@\"\nexec 0</dev/null\nsleep 20 &\nwait\n")
	for _, program := range []string{old, other, slow} {
		if err := os.Chmod(program, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	first := b.processes(child)
	b.settings(t, map[string]any{"binary": slow, "workspace": b.workspace})
	waitUntil(t, "the slow one is at work", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		o, err := b.try(ctx, "copilot_code", map[string]any{"task": "rehearsal: text Slowly."})
		return err == nil && o.Details.OK && len(b.processes(slow)) > 0
	})
	for _, tt := range []struct{ binary, text, remedy string }{
		{filepath.Join(b.user.Home, "nonesuch"), "copilot-bridge was not found (" + b.user.Home + "/nonesuch)", "copilot-bridge register openclaw"},
		{old, `does not fit this plugin: unknown command "plugin"`, "update copilot-bridge"},
		{other, "does not fit this plugin: it is other 9", "update copilot-bridge"},
	} {
		b.settings(t, map[string]any{"binary": tt.binary, "workspace": b.workspace})
		var o outcome
		waitUntil(t, "the new settings count", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var err error
			o, err = b.try(ctx, "copilot_code", map[string]any{"task": "rehearsal: text Still the old one."})
			return err == nil && strings.Contains(o.text(), tt.text)
		})
		if o.Details.OK || o.Details.Status != "failed" || !strings.Contains(o.Details.Remedy, tt.remedy) || !strings.Contains(o.text(), "What to do: ") {
			t.Errorf("%+v", o)
		}
	}
	waitUntil(t, "the first child has gone with its settings", func() bool {
		return !slices.ContainsFunc(b.processes(child), func(id int) bool { return slices.Contains(first, id) })
	})
	waitUntil(t, "the slow one is ended, and what it has left", func() bool { return len(b.processes(slow))+len(b.processes("sleep 20")) == 0 })
	b.settings(t, map[string]any{"binary": binary, "workspace": b.workspace})
	waitUntil(t, "the first settings count again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		o, err := b.try(ctx, "copilot_code", map[string]any{"task": "rehearsal: text As before."})
		return err == nil && o.Details.OK && strings.HasPrefix(o.text(), "As before.")
	})
}

func (b *bench) stop(t *testing.T) {
	ours := append(b.processes(child), b.processes(filepath.Base(runtimetest.Path(t)))...)
	if len(ours) < 2 {
		t.Errorf("child or runtime process not found: %v", ours)
	}
	b.gateway.Stop(t)
	for _, id := range ours {
		waitUntil(t, fmt.Sprintf("process %d ends", id), func() bool { return syscall.Kill(id, 0) != nil })
	}
	programtest.NoneLeft(t, b.user.Home)
}
