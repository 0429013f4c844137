package guard

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The calls that an MCP server of a caller is judged as.
const (
	ToolServerStart   = "mcp.server.start"
	ToolServerConnect = "mcp.server.connect"
)

// ServerCall is what it means to give a session an MCP server: the start of a
// program, judged as the command of a shell, or a connection to its host.
// Variables that change what the program does stand in front of the command,
// so that a rule for the command alone does not allow it. Values of variables
// and headers are secrets more often than not, and are left out.
func ServerCall(name string, s bridge.MCPServer, root string) (bridge.ToolCall, error) {
	description := "use the MCP server " + name
	if s.Command == "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" {
			return bridge.ToolCall{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the MCP server %q has neither a command nor a usable url", name),
				Remedy: "correct it where the session is asked for"}
		}
		// Keys stand in users and queries; only the host is judged.
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		return bridge.ToolCall{Name: ToolServerConnect, Args: map[string]any{"url": u.String(), "server": name,
			"headers": slices.Sorted(maps.Keys(s.Headers)), "description": description}}, nil
	}
	var words []string
	add := func(text string) error {
		quoted, err := syntax.Quote(text, syntax.LangBash)
		if err != nil {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the command of the MCP server %q cannot be written down", name), Cause: err}
		}
		words = append(words, quoted)
		return nil
	}
	for _, variable := range slices.Sorted(maps.Keys(s.Env)) {
		if !identifier.MatchString(variable) {
			return bridge.ToolCall{}, foreign(variable, "it is no name of a variable")
		}
		if changesPrograms(variable) {
			words = append(words, variable+"='(hidden)'")
		}
	}
	for _, word := range append([]string{s.Command}, s.Args...) {
		if err := add(word); err != nil {
			return bridge.ToolCall{}, err
		}
	}
	line := strings.Join(words, " ")
	if s.Dir != "" && s.Dir != root {
		if err := add(s.Dir); err != nil {
			return bridge.ToolCall{}, err
		}
		line = "cd " + words[len(words)-1] + " && " + line
	}
	return bridge.ToolCall{Name: ToolServerStart, Args: map[string]any{"command": line, "server": name,
		"env": slices.Sorted(maps.Keys(s.Env)), "description": description}}, nil
}
