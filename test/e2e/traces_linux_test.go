package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/tracetest"
)

const (
	callerTrace  = "0af7651916cd43dd8448eb211c80319c"
	callerParent = "00-" + callerTrace + "-b7ad6b7169203331-01"
)

// tracedEnv is the environment of a bridge whose traces are checked.
func tracedEnv(t *testing.T, home string, more ...string) []string {
	t.Helper()
	return append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=off"}, more...)
}

// ours are the spans of the bridge itself, as a tree.
func ours(c *tracetest.Collector) string {
	var out []string
	for line := range strings.Lines(c.Tree()) {
		if strings.Contains(line, "copilot-bridge: ") {
			out = append(out, strings.Replace(line, "copilot-bridge: ", "", 1))
		}
	}
	return strings.Join(out, "")
}

// A request to an agent is one trace: the request, the turn, what the model was
// asked, each tool with the guard's verdict and the wait for a person, and, because
// they are asked for, the runtime's own spans. The tokens are those that the model
// has reported.
func TestTraceOfARequest(t *testing.T) {
	t.Parallel()
	c := tracetest.New(t, nil)
	dir := t.TempDir()
	x := atTerminalWith(t, tracedEnv(t, t.TempDir(), "COPILOT_BRIDGE_OTEL_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20hunter2"),
		dir, "serve", "--port", "0", "--demo", "--read-write", "--log-level", "debug")
	waitUntil(t, "the address is shown", func() bool { return printedURL.MatchString(x.screen.String()) })
	script := strings.Join([]string{"rehearsal: usage 100 10", tool("view", map[string]string{"path": dir}), "rehearsal: next",
		"rehearsal: usage 200 20", tool("bash", map[string]string{"command": "touch made; env", "description": "x"}), "rehearsal: next",
		"rehearsal: usage 300 30", tool("create", map[string]string{"path": "/etc/no", "file_text": "x"}), "rehearsal: next", "rehearsal: usage 400 40", "rehearsal: text over"}, "\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, printedURL.FindString(x.screen.String())+"/v1/chat/completions",
			strings.NewReader(`{"model":"agent/rehearsal-1","messages":[{"role":"user","content":`+toJSON(script)+`}]}`))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Traceparent", callerParent)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%d, %v", resp.StatusCode, err)
		}
	}()
	x.waitFor(menu)
	x.typeKeys("y\n")
	<-done
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.checkExit(0)

	const want = `POST /v1/chat/completions
  invoke_agent copilot
    chat rehearsal-1
    chat rehearsal-1
    chat rehearsal-1
    chat rehearsal-1
    execute_tool bash
      guard bash
        guard wait
    execute_tool create
      guard create
    execute_tool view
      guard view
`
	if got := ours(c); got != want {
		t.Errorf("%s", c.Tree())
	}
	if in, out := c.Sum("gen_ai.usage.input_tokens"), c.Sum("gen_ai.usage.output_tokens"); in != 1000 || out != 100 {
		t.Errorf("%d tokens in, %d out", in, out)
	}
	verdicts := map[string]string{}
	runtimes := 0
	for _, s := range c.Spans("") {
		if s.Trace != callerTrace {
			t.Errorf("%s: %s is another trace", s.Service, s.GetName())
		}
		if s.Service == "github-copilot" {
			runtimes++
		}
		if s.Service == "copilot-bridge" && strings.HasPrefix(s.GetName(), "execute_tool") {
			verdicts[fmt.Sprint(s.Attrs["gen_ai.tool.name"])] = fmt.Sprint(s.Attrs["copilot_bridge.guard.verdict"], " ", s.Attrs["copilot_bridge.guard.asked"], " ", s.Attrs["error.type"])
		}
		if all := fmt.Sprint(s.Attrs); strings.Contains(all, "touch made") || strings.Contains(all, "over") && s.Service == "copilot-bridge" {
			t.Errorf("%s tells what was said or done: %s", s.GetName(), all)
		}
	}
	if want := map[string]string{"view": "allow false <nil>", "bash": "allow true <nil>", "create": "deny false denied"}; fmt.Sprint(verdicts) != fmt.Sprint(want) {
		t.Errorf("%v", verdicts)
	}
	tree := c.Tree()
	if runtimes < 5 || len(c.Spans("session.")) > 0 || !strings.Contains(tree, "    github-copilot: invoke_agent\n") || !strings.Contains(tree, "      github-copilot: execute_tool bash\n") {
		t.Errorf("%d spans of the runtime:\n%s", runtimes, tree)
	}
	if strings.Contains(x.screen.String(), "hunter2") {
		t.Error("the key of the collector is shown")
	}
}

// A run has a root of its own, or is part of what has started it. What a sub-agent
// does is below the call by which it works. The runtime sends nothing of its own
// unless that is asked for, and does not get the collector's key.
func TestTraceOfARun(t *testing.T) {
	t.Parallel()
	c := tracetest.New(t, nil)
	dir := t.TempDir()
	below := "rehearsal: usage 5 1\n" + tool("bash", map[string]string{"command": "env > env.txt", "description": "x"}) + "\nrehearsal: next\nrehearsal: usage 6 2\nrehearsal: text below"
	script := strings.Join([]string{"rehearsal: usage 7 3", tool("task", map[string]string{"description": "d", "name": "n", "agent_type": "general-purpose", "mode": "sync", "prompt": below}), "rehearsal: next",
		"rehearsal: usage 8 4", "rehearsal: text above"}, "\n")
	cmd := exec.CommandContext(t.Context(), binary, "run", "-", "--demo", "--yes")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script)
	cmd.Env = tracedEnv(t, t.TempDir(), "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=k=hunter2", "OTEL_BSP_SCHEDULE_DELAY=50", "TRACEPARENT="+callerParent)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `invoke_agent copilot
  chat rehearsal-1
  chat rehearsal-1
  execute_tool task
    chat rehearsal-1
    chat rehearsal-1
    execute_tool bash
      guard bash
    guard task
`
	if got := c.Tree(); got != strings.ReplaceAll(indented(want), "- ", "copilot-bridge: ") {
		t.Errorf("%s", got)
	}
	if in, out := c.Sum("gen_ai.usage.input_tokens"), c.Sum("gen_ai.usage.output_tokens"); in != 26 || out != 10 {
		t.Errorf("%d tokens in, %d out", in, out)
	}
	if root := c.Spans("invoke_agent")[0]; root.Trace != callerTrace || root.Parent != "b7ad6b7169203331" {
		t.Errorf("the root is %s below %s", root.Trace, root.Parent)
	}
	env, err := os.ReadFile(dir + "/env.txt")
	if err != nil || bytes.Contains(env, []byte("hunter2")) || bytes.Contains(env, []byte("OTEL_EXPORTER")) || bytes.Contains(env, []byte("TRACEPARENT")) {
		t.Errorf("a command gets %s, %v", env, err)
	}
}

// indented marks where the name in each line begins.
func indented(tree string) string {
	var b strings.Builder
	for line := range strings.Lines(tree) {
		name := strings.TrimLeft(line, " ")
		b.WriteString(line[:len(line)-len(name)] + "- " + name)
	}
	return b.String()
}

// A collector that does not answer delays the end of a run by the bound at most.
func TestCollectorIsDown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ended := func(env ...string) (took time.Duration, out string) {
		cmd := exec.CommandContext(t.Context(), binary, "run", "-", "--demo", "--yes")
		cmd.Dir, cmd.Stdin, cmd.Env = t.TempDir(), strings.NewReader("rehearsal: text answered"), tracedEnv(t, t.TempDir(), env...)
		var b output
		cmd.Stdout, cmd.Stderr = &b, &b
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "the run is answered", func() bool { return strings.Contains(b.String(), "session") })
		began := time.Now()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, b.String())
		}
		return time.Since(began), b.String()
	}
	took, out := ended("COPILOT_BRIDGE_OTEL_ENDPOINT=http://"+l.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	if took > 6*time.Second || strings.Count(out, "traces.dropped") != 1 || strings.Count(out, "traces.settings") != 1 || !slices.Contains(strings.Fields(out), "answered") {
		t.Errorf("the end took %s\n%s", took, out)
	}
}

// Turns that no request has started are traces of their own, whatever has started
// them, and nothing is lost when the program ends.
func TestTracesOfEveryDoor(t *testing.T) {
	t.Parallel()
	c := tracetest.New(t, nil)
	for door, through := range map[string]func(h *hostileWorkspace){
		"cli": func(h *hostileWorkspace) { h.run(t, "", "run", h.script()) },
		"acp": func(h *hostileWorkspace) { h.acp(t) },
		"abp": func(h *hostileWorkspace) { h.abp(t, nil) },
		"mcp": func(h *hostileWorkspace) {
			var out taskResult
			s := h.connect(t, nil, "copilot")
			mcpCall(t, s, "copilot_code_task", map[string]any{"prompt": h.script()}, &out)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		h := &hostileWorkspace{mcpBench: newMCPBench(t, nil), prompt: "rehearsal: usage 3 2\nrehearsal: text ALL-DONE"}
		h.env = append(h.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_SERVICE_NAME="+door)
		through(h)
		var roots, asked int
		for _, s := range c.Spans("") {
			if s.Service == door && s.Parent == "" && s.GetName() == "invoke_agent copilot" {
				roots++
			}
			if s.Service == door && s.Attrs["gen_ai.usage.input_tokens"] == int64(3) {
				asked++
			}
		}
		if roots != 1 || asked != 1 {
			t.Errorf("%s: %d turns, %d requests to the model\n%s", door, roots, asked, c.Tree())
		}
	}
}

// A task in parts is one trace.
func TestTraceOfOrchestrate(t *testing.T) {
	t.Parallel()
	c := tracetest.New(t, nil)
	s := newRepoBench(t)
	part := func(id string) orchestrate.SubTask {
		return orchestrate.SubTask{ID: id, EstimatedComplexity: orchestrate.Small, Description: "Part " + id + ".\n" + tool("create", map[string]string{"path": id + ".txt", "file_text": "x"}) + "\nrehearsal: next\nrehearsal: text done"}
	}
	cmd := s.command("do it", "--plan", s.plan(orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{part("a"), part("b")}}))
	cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	roots := c.Spans("invoke_workflow orchestrate")
	turns := c.Spans("invoke_agent")
	if len(roots) != 1 || roots[0].Parent != "" || len(turns) < 2 || len(c.Spans("execute_tool create")) != 2 {
		t.Fatalf("%s", c.Tree())
	}
	for _, turn := range turns {
		if turn.Parent != roots[0].ID {
			t.Errorf("a turn is elsewhere:\n%s", c.Tree())
		}
	}
}
