package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
)

// newGitHubHome is a home whose user has an account at a stand-in for GitHub.
func newGitHubHome(t *testing.T) (*testHome, *githubtest.Server) {
	t.Helper()
	s, k := githubtest.Start(t), newTestHome(t)
	k.env = append(s.Env(), "COPILOT_GITHUB_TOKEN="+s.Token())
	return k, s
}

// githubModels are the stand-in's models by the endpoint that they answer at.
var githubModels = map[string]string{"gpt-5": githubtest.ChatPath, "gpt-5-codex": githubtest.ResponsesPath, "claude-sonnet-4.5": githubtest.MessagesPath}

// checkModelCalls checks what the runtime has sent for turns of an agent with a
// tool call: a request of the user's, and one of the agent's, to the endpoint
// of the model and to no other.
func checkModelCalls(t *testing.T, s *githubtest.Server, model string, initiators ...string) {
	t.Helper()
	for id, path := range githubModels {
		calls := s.Calls(path)
		if id != model {
			if len(calls) > 0 {
				t.Errorf("%d requests went to %s", len(calls), path)
			}
			continue
		}
		var by []string
		for _, c := range calls {
			by = append(by, c.Header.Get("X-Initiator"))
			var body struct{ Model string }
			if err := json.Unmarshal(c.Body, &body); err != nil || body.Model != model {
				t.Errorf("the model is %q, %v", body.Model, err)
			}
			if h := c.Header; c.Status != http.StatusOK || h.Get("Authorization") != "Bearer "+s.Token() || h.Get("Copilot-Integration-Id") != "copilot-sdk" ||
				!strings.Contains(h.Get("User-Agent"), "client/copilot-bridge") || h.Get("X-Interaction-Id") == "" {
				t.Errorf("status %d, header %v", c.Status, c.Header)
			}
		}
		if !slices.Equal(by, initiators) {
			t.Errorf("%s was asked by %v, want %v", path, by, initiators)
		}
	}
}

// The user's account is looked up at the host, the models at the address that
// the account names, and a turn runs at the endpoint of its model.
func TestRunOnGitHub(t *testing.T) {
	t.Parallel()
	for model := range githubModels {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			k, s := newGitHubHome(t)
			out := k.run("run", "--json", "--model", model, helloTask)
			if text, err := os.ReadFile(filepath.Join(k.dir, "hello.txt")); err != nil || string(text) != "hi\n" {
				t.Errorf("the file: %q, %v\n%s", text, err, out)
			}
			checkModelCalls(t, s, model, "user", "agent")
			for _, path := range []string{githubtest.UserPath, githubtest.ModelsPath, githubtest.MCPPath} {
				calls := s.Calls(path)
				if len(calls) == 0 {
					t.Errorf("%s was not asked", path)
				}
				for _, c := range calls {
					if c.Status/100 == 5 || c.Header.Get("Authorization") != "Bearer "+s.Token() {
						t.Errorf("%s: %d %v", path, c.Status, c.Header)
					}
				}
			}
			if text := string(out); strings.Contains(text, s.Token()) || strings.Contains(text, "NOT COPILOT") || !strings.Contains(text, `"kind":"github"`) {
				t.Error(text)
			}
		})
	}
}

// The tools of GitHub's MCP server work in an agent's session: those that read
// without a question, and with consent those that write.
func TestGitHubToolsWork(t *testing.T) {
	t.Parallel()
	k, s := newGitHubHome(t)
	suffix, args := "list_issues", map[string]string{"owner": "octocat", "repo": "hello"}
	s.Model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		tool := slices.IndexFunc(r.ToolNames(), func(name string) bool { return strings.HasSuffix(name, suffix) })
		switch results := r.ToolResults(); {
		case tool < 0:
			return demomodel.Reply{demomodel.Text("no such tool")}, true
		case len(results) == 0:
			return demomodel.Reply{demomodel.ToolCall(r.ToolNames()[tool], args)}, true
		default:
			return demomodel.Reply{demomodel.Text("it said: " + results[0])}, true
		}
	})
	if out := string(k.run("run", "--model", "gpt-5", "list the issues")); !strings.Contains(out, "it said: "+githubtest.IssueText) {
		t.Error(out)
	}
	suffix, args = "create_issue", map[string]string{"title": "a bug"}
	if out := string(k.run("run", "--model", "gpt-5", "--yes", "create an issue")); !strings.Contains(out, "no such tool") {
		t.Error(out)
	}
	k.env = append(k.env, "COPILOT_BRIDGE_GITHUB_MCP=on")
	if out, err := k.command("run", "--model", "gpt-5", "create an issue").CombinedOutput(); err == nil || !strings.Contains(string(out), "denied after") || !strings.Contains(string(out), "needs consent") {
		t.Error(err, string(out))
	}
	if out := string(k.run("run", "--model", "gpt-5", "--yes", "create an issue")); !strings.Contains(out, "it said: issue 2 was created") {
		t.Error(out)
	}
}

// serve answers OpenAI's and Anthropic's clients with GitHub's models, as chat
// and as agent, and lists them.
func TestServeOnGitHub(t *testing.T) {
	t.Parallel()
	k, s := newGitHubHome(t)
	_, url := k.listen("--read-write")
	ask := func(path, body string) string {
		t.Helper()
		res, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err, string(text))
		}
		return string(text)
	}
	for model, path := range githubModels {
		before := len(s.Calls(path))
		for door, more := range map[string]string{"/v1/chat/completions": "", "/v1/messages": `"max_tokens":100,`} {
			for _, stream := range []string{"true", "false"} {
				body := `{"model":"` + model + `","stream":` + stream + `,` + more + `"messages":[{"role":"user","content":"rehearsal: text Good-morning"}]}`
				if out := ask(door, body); !strings.Contains(out, "Good-morning") || !strings.Contains(out, model) {
					t.Errorf("%s: %s", door, out)
				}
			}
		}
		if n := len(s.Calls(path)) - before; n != 4 {
			t.Errorf("%d requests for 4 chats at %s", n, path)
		}
		ask("/v1/chat/completions", `{"model":"agent/`+model+`","messages":[{"role":"user","content":"`+helloTask+`"}]}`)
		if err := os.Remove(filepath.Join(k.dir, "hello.txt")); err != nil {
			t.Errorf("agent/%s: %v", model, err)
		}
	}
	res, err := http.Get(url + "/v1/models/claude-sonnet-4.5")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil || !strings.Contains(string(text), `"context_length":144000`) || !strings.Contains(string(text), `"max_output_tokens":16000`) ||
		!strings.Contains(string(text), `"billing":{"is_premium":true,"multiplier":1},"policy":{"state":"enabled"}`) || strings.Contains(string(text), `"created":`) {
		t.Errorf("%s, %v", text, err)
	}
	if res := s.Calls(githubtest.UserPath); len(res) == 0 || len(res) > 3 {
		t.Errorf("the account was looked up %d times", len(res))
	}
}

// A token that expires in the middle of a turn fails the turn; the error says
// what to do, and the token is not in it.
func TestTokenExpiresInATurn(t *testing.T) {
	t.Parallel()
	k, s := newGitHubHome(t)
	s.Model.Handle(func(demomodel.Request) (demomodel.Reply, bool) {
		s.ExpireAfter(0)
		return demomodel.Reply{demomodel.ToolCall("bash", map[string]string{"command": "true", "description": "nothing"})}, true
	})
	cmd := k.command("run", "--model", "gpt-5", "--yes", "work")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	calls := s.Calls(githubtest.ChatPath)
	if code := cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(string(out), "log") || strings.Contains(string(out), s.Token()) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if len(calls) < 2 || calls[0].Status != http.StatusOK || calls[1].Status != http.StatusUnauthorized {
		t.Errorf("%d requests", len(calls))
	}
}

// A rate limit is waited for as long as GitHub says, and the turn goes on.
func TestRateLimitOfGitHub(t *testing.T) {
	t.Parallel()
	k, s := newGitHubHome(t)
	s.Answer(githubtest.ChatPath, githubtest.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: `{"error":{"message":"slow down","code":"rate_limited"}}`})
	if out := string(k.run("run", "--model", "gpt-5", "rehearsal: text it-went-on")); !strings.Contains(out, "it-went-on") {
		t.Error(out)
	}
	calls := s.Calls(githubtest.ChatPath)
	if len(calls) != 2 || calls[0].Status != http.StatusTooManyRequests || calls[1].At.Sub(calls[0].At) < time.Second {
		t.Errorf("%d requests: %v", len(calls), calls)
	}
}

// A work order on GitHub's models does its task. Its budget in credits holds
// before a request to the model, as GitHub sees it.
func TestWorkOrderOnGitHub(t *testing.T) {
	t.Parallel()
	k, s := newGitHubHome(t)
	s.SetCredits(3)
	file := filepath.Join(k.dir, "hello.txt")
	// Not by what was said: the runtime adds messages about the credits.
	s.Model.Handle(func(demomodel.Request) (demomodel.Reply, bool) {
		if len(s.Calls(githubtest.ChatPath))%2 == 1 {
			return demomodel.Reply{demomodel.ToolCall("create", map[string]string{"path": file, "file_text": "hi\n"})}, true
		}
		return demomodel.Reply{demomodel.Text("done")}, true
	})
	order := func(config string) (receipt string) {
		t.Helper()
		cmd := k.command("abp")
		cmd.Stdin = strings.NewReader(`{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"say hi","workspace":{"root":"."},"config":{"model":"gpt-5",` + config + `}}}` + "\n")
		out, err := cmd.Output()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return lines[len(lines)-1]
	}
	receipt := order(`"max_budget_usd":0.06`)
	if text, err := os.ReadFile(file); err != nil || string(text) != "hi\n" || !strings.Contains(receipt, `"outcome":"complete"`) ||
		!strings.Contains(receipt, `"request_units":1,"estimated_cost_usd":0.06`) || !strings.Contains(receipt, `"kind":"github"`) {
		t.Errorf("%q, %v\n%s", text, err, receipt)
	}
	checkModelCalls(t, s, "gpt-5", "user", "agent")
	receipt = order(`"max_budget_usd":0.05`)
	if !strings.Contains(receipt, `"outcome":"partial"`) || !strings.Contains(receipt, "max_budget_usd (0.05) does not allow another request to the model") {
		t.Error(receipt)
	}
	checkModelCalls(t, s, "gpt-5", "user", "agent", "user")
}

// The parts of an orchestration answer with GitHub's models, and each is one
// premium request.
func TestOrchestrateOnGitHub(t *testing.T) {
	t.Parallel()
	k, s := newGitHubHome(t)
	cmd := k.command("orchestrate", "--model", "gpt-5-codex", "--isolation", "shared", "--plan", "-")
	cmd.Stdin = strings.NewReader(`{"tasks":[{"id":"one","description":"` + helloTask + `"},{"id":"two","description":"rehearsal: text done","dependencies":["one"]}]}`)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), " · 2 premium requests\n") || s.Premium() != 2 {
		t.Errorf("%v, %v premium requests\n%s", err, s.Premium(), out)
	}
	if _, err := os.Stat(filepath.Join(k.dir, "hello.txt")); err != nil {
		t.Error(err)
	}
}
