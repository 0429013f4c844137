package guard

import "testing"

func TestGitHubTool(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		servers      []string // the caller's
		server, name string
		tool         string
		reads        bool
	}{
		{nil, "", "github-mcp-server-list_issues", "list_issues", true},
		{nil, githubServer, "github-mcp-server-get_me", "get_me", true},
		{nil, githubServer, "github-mcp-server-search_code", "search_code", true},
		{nil, githubServer, "github-mcp-server-pull_request_read", "pull_request_read", true},
		{nil, "", "github-mcp-server-create_issue", "create_issue", false},
		{nil, "", "github-mcp-server-merge_pull_request", "merge_pull_request", false},
		{nil, "", "github-mcp-server-web_search", "web_search", false},
		{nil, "other", "github-mcp-server-list_issues", "", false},
		{[]string{githubServer}, "", "github-mcp-server-list_issues", "", false},
		{[]string{"github"}, "", "github-mcp-server-list_issues", "", false},
		{nil, "", "list_issues", "list_issues", true},
	} {
		g := &Guard{opts: Options{Servers: c.servers}}
		tool, ok := g.githubTool(c.server, c.name)
		if want := c.tool != "" && c.name != c.tool; ok != want || ok && (tool != c.tool || readsGitHub(tool) != c.reads) {
			t.Errorf("%+v: %q, %v", c, tool, ok)
		}
	}
}
