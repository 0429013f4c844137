package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestServersInTheFile(t *testing.T) {
	files := MCPServer{Command: "npx", Args: []string{"-y", "my-server"}, Env: map[string]Secret{"TOKEN": "${TOKEN}"}}
	docs := MCPServer{URL: "https://example.com/mcp"}
	const block = "  files:\n    command: \"npx\"\n    args: [\"-y\",\"my-server\"]\n    env: {\"TOKEN\":\"${TOKEN}\"}\n"
	for name, tt := range map[string]struct {
		before string
		add    map[string]MCPServer
		after  string
	}{
		"new file":   {"", map[string]MCPServer{"files": files}, "mcp_servers:\n" + block},
		"the end":    {"model: m # mine\n", map[string]MCPServer{"files": files}, "model: m # mine\nmcp_servers:\n" + block},
		"beside":     {"mcp_servers:\n    # mine\n    docs: {url: https://example.com/mcp}\n\nmodel: m\n", map[string]MCPServer{"docs2": docs}, "mcp_servers:\n    # mine\n    docs: {url: https://example.com/mcp}\n    docs2:\n      url: \"https://example.com/mcp\"\n\nmodel: m\n"},
		"in place":   {"mcp_servers:\n  files:\n    command: old\n  other:\n    command: x\n", map[string]MCPServer{"files": files}, "mcp_servers:\n" + block + "  other:\n    command: x\n"},
		"empty":      {"mcp_servers:\nmodel: m\n", map[string]MCPServer{"files": files}, "mcp_servers:\n" + block + "model: m\n"},
		"two":        {"", map[string]MCPServer{"files": files, "docs": docs}, "mcp_servers:\n  docs:\n    url: \"https://example.com/mcp\"\n" + block},
		"with sugar": {"mcp_servers:\n  a:\n    command: x\n    args:\n    - b # c\n", map[string]MCPServer{"docs": docs}, "mcp_servers:\n  a:\n    command: x\n    args:\n    - b # c\n  docs:\n    url: \"https://example.com/mcp\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := WithServers("config.yaml", []byte(tt.before), tt.add)
			if err != nil || string(got) != tt.after {
				t.Fatalf("%v\n got %q\nwant %q", err, got, tt.after)
			}
			for name := range tt.add {
				if got, err = WithoutServer("config.yaml", got, name); err != nil {
					t.Fatal(err)
				}
			}
			if strings.Contains(string(got), "npx") || strings.Contains(string(got), "docs2") {
				t.Errorf("left %q", got)
			}
		})
	}
	for _, before := range []string{"mcp_servers: {a: {command: x}}\n", "{model: m}\n", "mcp_servers: '{\"a\": {\"command\": \"x\"}}'\n"} {
		_, err := WithServers("config.yaml", []byte(before), map[string]MCPServer{"docs": docs})
		if e := bridge.AsError(err); err == nil || e.Message != "mcp_servers in config.yaml has a form that cannot be changed in place" || e.Remedy != "Change it with `copilot-bridge config edit`." {
			t.Errorf("%q: %v", before, err)
		}
	}
}

func TestReferences(t *testing.T) {
	variable := func(name string) string { return map[string]string{"KEY": "k", "DIR": "/d"}[name] }
	s, missing := MCPServer{Args: []string{"${DIR}/x", "$DIR", "${NONE:-y}"}, Env: map[string]Secret{"A": "${KEY}", "B": "${NONE}-${NONE}", "C": "${NONE:-}"},
		Headers: map[string]Secret{"H": "Bearer ${OTHER}"}}.expanded(variable)
	if !slices.Equal(s.Args, []string{"/d/x", "$DIR", "y"}) || s.Env["A"] != "k" || s.Env["C"] != "" || !slices.Equal(missing, []string{"NONE", "OTHER"}) {
		t.Errorf("%q %q %q", s.Args, Plain(s.Env), missing)
	}
	for text, want := range map[string]bool{"${A}": true, "Bearer ${A}": true, "${A}${B:-c}": true, "x": false, "sk-${A}": false, "": false} {
		if IsReference(text) != want {
			t.Errorf("%q", text)
		}
	}
}
