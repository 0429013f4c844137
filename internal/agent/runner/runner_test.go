//go:build unix

package runner_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/runner"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

func options(t *testing.T, program string, args ...string) runner.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return runner.Options{Program: program, Args: args, Records: t.TempDir(), Self: self, Env: os.Environ()}
}

var lacks = map[agenttest.Ability]string{
	agenttest.Chats:       "a runner cannot be kept from using its own tools",
	agenttest.ClientTools: "tools of the caller are not part of the contract",
	agenttest.Resumes:     "a runner keeps no sessions",
	agenttest.Lists:       "a runner keeps no sessions",
	agenttest.Deletes:     "a runner keeps no sessions",
	agenttest.GatesTools:  "a runner tells of a tool call and does not ask",
	agenttest.HidesResult: "a runner gives results to its model by itself",
}

func TestContract(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("testdata", "runner.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	agenttest.Run(t, agenttest.Harness{CreateTool: "create", Lacks: lacks, New: func(t *testing.T) engine.Agent {
		m := programtest.Model(t)
		o := options(t, "node", script)
		o.Env = append(o.Env, "MODEL_URL="+m.URL(), "MODEL_KEY="+m.Key(), "MODEL="+m.Model())
		return runner.New(o)
	}})
	agenttest.Documented(t, filepath.Join("..", "..", "..", "docs", "guides", "agents.md"), "Legacy runner", lacks)
}

// run runs one turn of a shell script as the runner.
func run(t *testing.T, script string, spec bridge.SessionSpec) agenttest.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
	defer cancel()
	a := runner.New(options(t, "sh", "-c", script))
	defer func() {
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if spec.WorkingDir == "" {
		spec.WorkingDir = t.TempDir()
	}
	if spec.Gate == nil {
		spec.Gate = agenttest.AllowAll()
	}
	s, err := a.Open(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	return agenttest.Collect(ctx, s, bridge.Prompt{Text: "do it"})
}

func TestLines(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		text   string
		check  func(*testing.T, agenttest.Outcome)
	}{
		"plain lines": {`echo one; echo two`, "one\ntwo\n", nil},
		"json that is no event": {`echo '{"answer":42}'; echo '{"type":"object"}'; echo '[1]'; echo '{broken'`,
			"{\"answer\":42}\n{\"type\":\"object\"}\n[1]\n{broken\n", nil},
		"deltas and their message": {`echo '{"type":"assistant_delta","text":"a"}'; echo '{"type":"assistant_delta","delta":"b"}'; echo '{"type":"assistant_message","text":"ab"}'`, "ab",
			func(t *testing.T, o agenttest.Outcome) {
				if o.Deltas() != "ab" || len(agenttest.Find[bridge.MessageDone](o)) != 1 {
					t.Errorf("%+v", o.Events)
				}
			}},
		"a message alone": {`echo '{"type":"assistant_message","content":"whole"}'`, "whole", func(t *testing.T, o agenttest.Outcome) {
			if o.Deltas() != "whole" {
				t.Errorf("deltas %q", o.Deltas())
			}
		}},
		"in an envelope": {`echo '{"t":"event","ref_id":"x","event":{"type":"assistant_message","text":"inside"}}'`, "inside", nil},
		"tools": {`echo '{"type":"tool_call","name":"bash","id":"1","args":{"command":"ls"}}'; echo '{"type":"tool_result","tool_use_id":"1","output":{"n":1}}';
			echo '{"type":"tool_call","tool":"view","input":{"path":"x"}}'; echo '{"type":"tool_result","is_error":true,"output":"no"}'; echo '{"type":"assistant_message","text":"ok"}'`, "ok",
			func(t *testing.T, o agenttest.Outcome) {
				began, ended := agenttest.Find[bridge.ToolStarted](o), agenttest.Find[bridge.ToolFinished](o)
				if len(began) != 2 || len(ended) != 2 || began[0].Call.Name != "bash" || ended[0].Result != `{"n":1}` || !ended[0].OK ||
					ended[1].OK || ended[1].Error != "no" || ended[1].CallID != began[1].Call.ID {
					t.Errorf("%+v %+v", began, ended)
				}
			}},
		"usage": {`echo '{"type":"usage","usage":{"prompt_tokens":3,"completion_tokens":4}}'; echo '{"type":"usage","input_tokens":1,"output_tokens":1,"model":"m"}'; echo x`, "x\n",
			func(t *testing.T, o agenttest.Outcome) {
				if u := agenttest.Find[bridge.TurnEnded](o)[0].Usage; u.InputTokens != 4 || u.OutputTokens != 5 || u.Calls != 2 {
					t.Errorf("%+v", u)
				}
			}},
		"warnings": {`echo careful >&2; echo '{"type":"warning","message":"hm"}'; echo x`, "x\n", func(t *testing.T, o agenttest.Outcome) {
			var got []string
			for _, n := range agenttest.Find[bridge.Notice](o) {
				got = append(got, n.Level+" "+n.Text)
			}
			slices.Sort(got)
			if !slices.Equal(got, []string{"warning careful", "warning hm"}) {
				t.Errorf("%q", got)
			}
		}},
		"an error that it got over": {`echo '{"type":"error","message":"oops"}'; echo fine`, "fine\n", nil},
		"streams left open by a child": {`sleep 300 & echo done`, "", func(t *testing.T, o agenttest.Outcome) {
			if o.Deltas() != "done\n" {
				t.Errorf("%q", o.Deltas())
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, tc.script, bridge.SessionSpec{})
			if o.Err != nil || tc.text != "" && o.Text() != tc.text {
				t.Fatalf("%q, %v", o.Text(), o.Err)
			}
			if end := agenttest.Find[bridge.TurnEnded](o); len(end) != 1 || end[0].Reason != bridge.EndDone {
				t.Errorf("ended %+v", end)
			}
			if tc.check != nil {
				tc.check(t, o)
			}
		})
	}
}

func TestExits(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		code   bridge.Code
		says   string
	}{
		"a code":              {`echo half; exit 3`, bridge.CodeProvider, "code 3"},
		"with last words":     {`echo broken >&2; exit 1`, bridge.CodeProvider, "broken"},
		"with an error":       {`echo '{"type":"error","message":"bad words","status":400}'; exit 1`, bridge.CodeProvider, "bad words"},
		"with a refusal":      {`echo '{"type":"error","message":"who?","status":401}'; exit 1`, bridge.CodeUnauthenticated, "who?"},
		"with a limit":        {`echo '{"type":"error","error":"slow down","status":429}'; exit 1`, bridge.CodeRateLimited, "slow down"},
		"killed":              {`kill -9 $$`, bridge.CodeProvider, "signal"},
		"a denied tool stops": {`echo '{"type":"tool_call","name":"bash","input":{"command":"x"}}'; sleep 300`, bridge.CodeDenied, "house rules"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := bridge.SessionSpec{}
			if strings.Contains(name, "denied") {
				spec.Gate = &agenttest.Gate{BeforeFunc: func(bridge.ToolCall) bridge.Decision { return bridge.Decision{Reason: "house rules"} }}
			}
			o := run(t, tc.script, spec)
			if bridge.CodeOf(o.Err) != tc.code || !strings.Contains(o.Err.Error(), tc.says) {
				t.Errorf("%v", o.Err)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "request.json")
	order := `{"id":"o","context":{"files":["a"],"snippets":[]},"policy":{"deny_write":["*"]},"config":{"env":{"A":"b"}}}`
	o := run(t, `cat > request.json; echo "$PWD"; echo "key=$COPILOT_BYOK_API_KEY"`, bridge.SessionSpec{WorkingDir: dir, Model: "gpt-5", ReasoningEffort: "high",
		System: bridge.SystemText{Text: "be brief"}, AvailableTools: []string{"view"}, ExcludedTools: []string{"bash"}, WorkOrder: json.RawMessage(order),
		MCPServers: map[string]bridge.MCPServer{"s": {Command: "c", Args: []string{"x"}}, "h": {URL: "http://127.0.0.1:1"}}})
	if o.Err != nil || !strings.HasSuffix(strings.Split(o.Text(), "\n")[0], filepath.Base(dir)) || !strings.Contains(o.Text(), "key=\n") {
		t.Fatalf("%q, %v", o.Text(), o.Err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"prompt": "do it", "workspace_root": dir, "model": "gpt-5", "reasoningEffort": "high", "systemMessage": "be brief", "streaming": true} {
		if got[key] != want {
			t.Errorf("%s is %v", key, got[key])
		}
	}
	for key, want := range map[string]string{"policy": `{"deny_write":["*"]}`, "context": `{"files":["a"],"snippets":[]}`, "env": `{"A":"b"}`,
		"availableTools": `["view"]`, "excludedTools": `["bash"]`, "history": `[]`} {
		if b, err := json.Marshal(got[key]); err != nil || string(b) != want {
			t.Errorf("%s is %s, %v", key, b, err)
		}
	}
	servers, _ := got["mcpServers"].(map[string]any)
	if raw, ok := got["raw_request"].(map[string]any); !ok || raw["id"] != "o" || len(servers) != 2 || got["request_id"] == "" {
		t.Errorf("raw_request %v, servers %v", got["raw_request"], servers)
	}
}

func TestWithoutARunner(t *testing.T) {
	a := runner.New(options(t, ""))
	s, err := a.Open(t.Context(), bridge.SessionSpec{WorkingDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for range 2 {
		o := agenttest.Collect(t.Context(), s, bridge.Prompt{Text: "do it"})
		end := agenttest.Find[bridge.TurnEnded](o)
		if o.Err != nil || len(end) != 1 || end[0].Reason != bridge.EndPartial || len(agenttest.Find[bridge.Notice](o)) != 1 {
			t.Fatalf("%+v, %v", o.Events, o.Err)
		}
		texts = append(texts, o.Text())
	}
	if texts[0] != texts[1] || !strings.Contains(texts[0], "ABP_COPILOT_RUNNER") {
		t.Errorf("%q", texts)
	}
	if st, err := a.Status(t.Context()); err != nil || st.Authenticated || st.Message == "" {
		t.Errorf("status %+v, %v", st, err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRunnerThatIsNotThere(t *testing.T) {
	a := runner.New(options(t, "/no/such/runner"))
	s, err := a.Open(t.Context(), bridge.SessionSpec{WorkingDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(t.Context(), s, bridge.Prompt{Text: "x"}); o.Err == nil || bridge.AsError(o.Err).Remedy == "" {
		t.Errorf("%v", o.Err)
	}
}

// A runner loads what it likes: it is not started where there is something to
// load.
func TestRunnerIsNotStartedWhereAnAgentWouldLoadFiles(t *testing.T) {
	for _, name := range []string{"AGENTS.md", ".github/hooks/x.json", ".claude/settings.local.json"} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		o := run(t, "touch ran", bridge.SessionSpec{WorkingDir: dir})
		if _, err := os.Stat(filepath.Join(dir, "ran")); bridge.CodeOf(o.Err) != bridge.CodeDenied || err == nil {
			t.Errorf("%s: %v, %v", name, o.Err, err)
		}
	}
}
