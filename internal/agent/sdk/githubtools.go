package sdk

import (
	"context"
	"strings"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// githubServer is the runtime's name of GitHub's MCP server, which it attaches by
// itself where the user has an account.
const githubServer = "github-mcp-server"

// The values of Options.GitHubTools. The zero value is GitHubToolsReadOnly.
const (
	GitHubToolsOff      = "off"
	GitHubToolsReadOnly = "read-only"
	GitHubToolsOn       = "on"
)

// githubWithin is how long a turn waits for that server to answer. The runtime
// would wait for a minute.
const githubWithin = 5 * time.Second

// githubTools says whether the session has the tools of GitHub's server. Chats
// have none of the runtime's tools, so they do not ask for them.
func (s *session) githubTools() bool {
	_, own := s.Spec.MCPServers[githubServer]
	return s.Spec.Profile == bridge.ProfileAgent && s.host.opts.GitHubTools != GitHubToolsOff && !own
}

func (s *session) chooseGitHubTools(c *copilot.SessionConfig) {
	_, own := s.Spec.MCPServers[githubServer]
	switch {
	case own:
	case !s.githubTools():
		c.DisabledMCPServers = []string{githubServer}
	case s.host.opts.GitHubTools == GitHubToolsOn:
		c.GitHubMCPToolConfig = &copilot.GitHubMCPToolConfig{EnableAllTools: copilot.Bool(true)}
	}
}

// goOnWithoutGitHub lets a turn begin although GitHub's server does not answer.
// Servers of the caller's are waited for, as long as the runtime does. It returns
// when ctx ends at the latest.
func (s *session) goOnWithoutGitHub(ctx context.Context, t *turn) {
	if !s.githubTools() || len(s.Spec.MCPServers) > 0 || s.loaded.Swap(true) {
		return
	}
	late := time.NewTimer(githubWithin)
	defer late.Stop()
	select {
	case <-late.C:
	case <-ctx.Done():
		return
	}
	moved, err := s.sdk.RPC.MCP.MoveLoadingToBackground(ctx)
	if err != nil {
		s.host.opts.Logger.Debug("mcp.not_moved", "session", s.ID(), "error", err)
	} else if moved.MovedToBackground {
		t.push(withoutGitHub("their server has not answered within " + githubWithin.String()))
	}
}

func withoutGitHub(why string) bridge.Notice {
	return bridge.Notice{Level: "note", Text: "GitHub's tools are missing: " + why}
}

// githubFailure words the failure of GitHub's server in one line.
func githubFailure(d *rpc.SessionMCPServerStatusChangedData) (why string) {
	if d.Status == rpc.MCPServerStatusNeedsAuth {
		return "GitHub does not accept the login for them"
	}
	why = str(d.Error)
	if _, answer, ok := strings.Cut(why, "unexpected server response: "); ok {
		why, _, _ = strings.Cut(answer, ":") // the rest may be a page
	}
	why, _, _ = strings.Cut(why, "\n")
	return why
}
