package app

import (
	"github.com/copilot-bridge/copilot-bridge/internal/door/mcp"
	"github.com/copilot-bridge/copilot-bridge/internal/door/toolbus"
)

// busTools is the tool bus for those who speak MCP: the same methods on the
// same desk, under the same guard.
func (s *Server) busTools() (*mcp.Server, error) {
	tools, err := toolbus.Tools(s.desk)
	if err != nil {
		return nil, err
	}
	var out []mcp.Tool
	for _, t := range tools {
		out = append(out, mcp.Tool(t))
	}
	b := s.bridge
	return mcp.NewTools("Copilot Bridge", "The tools of the workspace that is open in the editor, unsaved documents included, under the user's policy.", out,
		mcp.Options{Version: b.opts.Version, Logger: b.opts.Logger, Enter: b.enter}), nil
}
