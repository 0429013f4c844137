package policy

import (
	"strings"
	"testing"
)

func TestTools(t *testing.T) {
	const (
		both  = "both"
		deny  = "deny only"
		never = "never"
	)
	for _, tt := range []struct{ rule, tool, server, matches string }{
		{"bash", "bash", "", both},
		{"Bash", "bash", "", both},
		{"bash", "BASH", "", both},
		{"bash", "read_bash", "", never},
		{"*bash", "read_bash", "", both},
		{"web_*", "web_fetch", "", both},
		{"web_*", "WEB_SEARCH", "", both},
		{"web_?etch", "web_fetch", "", both},
		{"{view,grep}", "grep", "", both},
		{"[vg]*", "grep", "", both},
		{"builtin:bash", "bash", "", both},
		{"custom:weather", "weather", "", both},
		{"mcp:bash", "bash", "", never},
		{"*", "bash", "", both},
		{"*", "", "", both},
		{"*", "odd/name", "", both},
		{"odd*", "odd/name", "", both},
		{"**", "x", "", both},
		{"github/search", "search", "github", both},
		{"github-search", "search", "github", both},
		{"mcp:github-search", "search", "github", both},
		{"GitHub/Search", "search", "github", both},
		{"search", "search", "github", deny}, // a server may name its tool as it likes
		{"bash", "bash", "evil", deny},
		{"builtin:bash", "bash", "evil", never},
		{"github/*", "search", "github", both},
		{"github-*", "search", "github", both},
		{"mcp:*", "search", "github", both},
		{"*", "search", "github", both},
		{"gitlab/*", "search", "github", never},
		{"github/search", "github-search", "github", deny}, // the name comes with the server's
		{"github/search", "mcp:github-search", "github", deny},
		{"search", "github-search", "github", deny},
		{"git/git-log", "git-log", "git", both},
		{"git/log", "git-log", "git", deny},
		{"github/search", "github-search", "", deny}, // the server is not known
		{"mcp:github-search", "github-search", "", deny},
		{"my-server/do-it", "my-server-do-it", "", deny},
		{"my-server/*", "my-server-do-it", "", deny},
		{"github-search", "github-search", "", both},
		{"my-server/do-it", "my-other-do-it", "", never},
	} {
		rule := Rule{Pattern: tt.rule}
		if err := compileTool(&rule); err != nil {
			t.Errorf("%q: %v", tt.rule, err)
			continue
		}
		names := namesOf(tt.tool, tt.server)
		got := never
		switch a, d := rule.tool.match(names.own), rule.tool.match(names.any); {
		case a && d:
			got = both
		case d:
			got = deny
		case a:
			got = "allow only"
		}
		if got != tt.matches {
			t.Errorf("%q on %s/%s: %s, want %s", tt.rule, tt.server, tt.tool, got, tt.matches)
		}
	}
}

func TestBadTools(t *testing.T) {
	for rule, want := range map[string]string{
		"!bash": "negated", `a\b`: `no \`, "npm test": "white space", "[a": "valid glob", "{a": "valid glob",
		strings.Repeat("{a,b}", 9): "alternatives",
	} {
		if err := compileTool(&Rule{Pattern: rule}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rule, err, want)
		}
	}
}
