package clients

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
)

// serveOnGitHub is serve for the account of a stand-in for GitHub. Its one model
// answers at an endpoint.
func serveOnGitHub(t *testing.T, endpoint string, settings ...string) (*served, *githubtest.Server) {
	t.Helper()
	github := githubtest.Start(t)
	github.Model.Handle(tellWhatWasAsked)
	m := githubtest.UsualModels()[0]
	m.ID, m.Endpoint = github.Model.Model(), endpoint
	github.SetModels(m)
	settings = append(append(github.Env(), "COPILOT_GITHUB_TOKEN="+github.Token(), "COPILOT_BRIDGE_MODEL="+m.ID), settings...)
	return launch(t, github.Model, "", settings...), github
}

// OpenAI's library is answered by GitHub's models at each kind of endpoint.
func TestOpenAIGoOnGitHub(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{githubtest.ChatPath, githubtest.ResponsesPath, githubtest.MessagesPath} {
		t.Run(strings.ReplaceAll(endpoint[1:], "/", " "), func(t *testing.T) {
			t.Parallel()
			s, github := serveOnGitHub(t, endpoint)
			client := newGoClient(s, "any")
			t.Run("chat whole", client.chatWhole)
			t.Run("chat stream", client.chatStream)
			t.Run("chat, two parallel calls", client.chatTools)
			t.Run("responses whole", client.responsesWhole)
			t.Run("responses stream", client.responsesStream)
			t.Run("responses, two parallel calls", client.responsesTools)
			if len(github.Calls(endpoint)) == 0 {
				t.Errorf("nothing was asked at %s", endpoint)
			}
		})
	}
}

// Anthropic's library is answered by GitHub's models. The list of models has
// another one there, auto.
func TestAnthropicOnGitHub(t *testing.T) {
	t.Parallel()
	open, _ := serveOnGitHub(t, githubtest.ChatPath, "COPILOT_BRIDGE_UNKNOWN_MODEL=error")
	closed, _ := serveOnGitHub(t, githubtest.ChatPath, smallLimits...)
	runScripts(t, "anthropic", "^(?!model list)", open, closed)
}

// Codex and Claude Code write files, answered by GitHub's models. A call of a
// tool of theirs goes on with the turn and is no premium request.
func TestCodingAgentsOnGitHub(t *testing.T) {
	t.Parallel()
	t.Run("Codex", func(t *testing.T) {
		t.Parallel()
		program := codexProgram(t)
		s, github := serveOnGitHub(t, githubtest.ResponsesPath, "COPILOT_BRIDGE_TOKEN="+token)
		d := newAgentBench(t, "COPILOT_BRIDGE_TOKEN="+token)
		d.writeFiles(t, map[string]string{".codex/config.toml": fmt.Sprintf(codexConfig, fmt.Sprintf("model = %q\n", s.model.Model()), s.url+"/v1")})
		steps := script(call(t, "exec_command", map[string]string{"cmd": "echo hello from codex > hello.txt"}))
		checkLastLine(t, d.run(t, "node", program, "exec", "--dangerously-bypass-approvals-and-sandbox", steps), "It is written.")
		d.checkFile(t, "hello.txt", "hello from codex\n")
		if n := github.Premium(); n != 1 {
			t.Errorf("%v premium requests", n)
		}
	})
	t.Run("Claude Code", func(t *testing.T) {
		t.Parallel()
		program := claudeCode(t)
		s, _ := serveOnGitHub(t, githubtest.MessagesPath, "COPILOT_BRIDGE_TOKEN="+token)
		d := newAgentBench(t, "ANTHROPIC_MODEL="+s.model.Model(), "ANTHROPIC_DEFAULT_HAIKU_MODEL="+s.model.Model(), "ANTHROPIC_BASE_URL="+s.url, "ANTHROPIC_AUTH_TOKEN="+token, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
		hello := filepath.Join(d.repository, "hello.txt")
		steps := script(call(t, "Write", map[string]string{"file_path": hello, "content": "hello from Claude Code\n"}))
		checkLastLine(t, d.run(t, program, "-p", steps, "--permission-mode", "acceptEdits", "--max-turns", "4"), "It is written.")
		d.checkFile(t, "hello.txt", "hello from Claude Code\n")
	})
}
