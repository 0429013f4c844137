package guard

import (
	"strings"
)

// githubServer is the runtime's name of GitHub's MCP server. The runtime attaches
// it where the user has an account.
const githubServer = "github-mcp-server"

// githubTool returns GitHub's own name of a tool of that server. A tool of a
// caller's server is another one, whatever it is called.
func (g *Guard) githubTool(server, name string) (tool string, ok bool) {
	if server != "" && server != githubServer {
		return "", false
	}
	for _, s := range g.opts.Servers {
		if s == githubServer || strings.HasPrefix(name, s+"-") {
			return "", false
		}
	}
	return strings.CutPrefix(name, githubServer+"-")
}

// readsGitHub reports whether a tool of GitHub's server only reads, by the words
// that its names are made of. What has another name is asked about.
func readsGitHub(tool string) bool {
	for _, first := range []string{"get_", "list_", "search_"} {
		if strings.HasPrefix(tool, first) {
			return true
		}
	}
	for _, last := range []string{"_read", "_get", "_list"} {
		if strings.HasSuffix(tool, last) {
			return true
		}
	}
	return false
}
