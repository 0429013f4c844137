package app

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// userServers are the MCP servers of the user's configuration. They are the
// user's own choice, like those of Copilot's home, so their start is not judged;
// every call of their tools is.
type userServers struct{ warn sync.Once }

// servers are those servers as a session gets them. One that needs a variable
// which is not set is left out, and a warning says so once. The window's models
// have no tools of their own.
func (b *Bridge) servers(workspace string) map[string]bridge.MCPServer {
	if b.opts.Window != nil {
		return nil
	}
	out := map[string]bridge.MCPServer{}
	var leftOut []string
	for name, s := range b.opts.Config.Servers() {
		if len(s.Missing) > 0 {
			leftOut = append(leftOut, "the MCP server "+name+" is left out: "+strings.Join(s.Missing, ", ")+" is not set")
			continue
		}
		if s.Command != "" {
			path, err := program.Find(s.Command, b.opts.Environ)
			if err != nil {
				leftOut = append(leftOut, "the MCP server "+name+" is left out: "+s.Command+" was not found")
				continue
			}
			s.Command = path // in a workspace another program may have that name
		}
		m := bridge.MCPServer{Command: s.Command, Args: s.Args, Env: config.Plain(s.Env), Dir: s.Dir, URL: s.URL, Headers: config.Plain(s.Headers), Tools: s.Tools, Own: true}
		if m.Command != "" && m.Dir == "" {
			m.Dir = workspace
		}
		out[name] = m
	}
	b.userServers.warn.Do(func() {
		slices.Sort(leftOut)
		for _, text := range leftOut {
			b.opts.Logger.Warn("mcp.left_out: " + text)
		}
	})
	return out
}

// WithServers adds a caller's own MCP servers to those of the user; of two with
// one name the caller's counts.
func (b *Bridge) WithServers(workspace string, theirs map[string]bridge.MCPServer) map[string]bridge.MCPServer {
	return withServers(b.servers(workspace), theirs)
}

// serverNames are the names of a session's servers: the caller's and, unless it
// follows a work order, the user's.
func (b *Bridge) serverNames(g Guarding) []string {
	if g.Door == "abp" || b.opts.Window != nil {
		return g.Servers
	}
	names := slices.Concat(g.Servers, slices.Collect(maps.Keys(b.opts.Config.MCPServers)))
	slices.Sort(names)
	return slices.Compact(names)
}
