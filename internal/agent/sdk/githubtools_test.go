//go:build unix

package sdk_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
)

// turnOnGitHub runs a turn on a stand-in, and returns the tools of GitHub's MCP
// server that the model was offered, and what a person is told.
func turnOnGitHub(t *testing.T, github *githubtest.Server, setting string, p bridge.Profile) (tools, told []string) {
	t.Helper()
	github.Model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		for _, name := range r.ToolNames() {
			if tool, ok := strings.CutPrefix(name, "github-mcp-server-"); ok {
				tools = append(tools, tool)
			}
		}
		return demomodel.Reply{demomodel.Text("done")}, true
	})
	o := onGitHub(t, github, "gpt-5")
	o.GitHubTools = setting
	a := sdk.New(o)
	defer func() {
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	s, err := a.Open(t.Context(), bridge.SessionSpec{Profile: p, Model: "gpt-5", WorkingDir: t.TempDir(), Gate: agenttest.AllowAll()})
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range s.Send(t.Context(), bridge.Prompt{Text: "hello"}) {
		if n, ok := ev.(bridge.Notice); ok && n.Level != "info" {
			told = append(told, n.Level+" "+n.Text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(tools)
	return tools, told
}

// A setting says which tools of GitHub an agent has. Chats ask for none.
func TestGitHubTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setting string
		profile bridge.Profile
		tools   []string
		asked   bool
	}{
		"by default": {"", bridge.ProfileAgent, []string{"list_issues"}, true},
		"read-only":  {sdk.GitHubToolsReadOnly, bridge.ProfileAgent, []string{"list_issues"}, true},
		"on":         {sdk.GitHubToolsOn, bridge.ProfileAgent, []string{"create_issue", "list_issues"}, true},
		"off":        {sdk.GitHubToolsOff, bridge.ProfileAgent, nil, false},
		"chat":       {sdk.GitHubToolsOn, bridge.ProfileChat, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			github := githubtest.Start(t)
			tools, told := turnOnGitHub(t, github, c.setting, c.profile)
			asked := slices.ContainsFunc(github.Calls(""), func(call githubtest.Call) bool { return strings.HasPrefix(call.Path, "/mcp") })
			if !slices.Equal(tools, c.tools) || len(told) > 0 || asked != c.asked {
				t.Errorf("tools %v, told %q, asked: %v", tools, told, asked)
			}
		})
	}
}

// Without GitHub's MCP server a turn goes on, and one line says why.
func TestGitHubToolsFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer githubtest.Answer
		told   string
	}{
		"404":   {githubtest.Answer{Status: http.StatusNotFound, Body: "<html>\nnothing here"}, "note GitHub's tools are missing: HTTP 404 Not Found"},
		"401":   {githubtest.Answer{Status: http.StatusUnauthorized, Body: `{"message":"Bad credentials"}`}, "note GitHub's tools are missing: GitHub does not accept the login for them"},
		"hangs": {githubtest.Answer{Delay: time.Minute}, "note GitHub's tools are missing: their server has not answered within 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			github := githubtest.Start(t)
			github.Always(githubtest.MCPPath, c.answer)
			if tools, told := turnOnGitHub(t, github, "", bridge.ProfileAgent); len(tools) > 0 || !slices.Equal(told, []string{c.told}) {
				t.Errorf("tools %v, told %q", tools, told)
			}
		})
	}
}
