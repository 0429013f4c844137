package app

import (
	"github.com/copilot-bridge/copilot-bridge/internal/api/mcp"
	"github.com/copilot-bridge/copilot-bridge/internal/api/toolbus"
)

// busTools is the tool bus for those who speak MCP: the same methods on the
// same backend, under the same guard.
func (s *Server) busTools() (*mcp.Server, error) {
	tools, err := toolbus.Tools(s.backend)
	if err != nil {
		return nil, err
	}
	b := s.bridge
	return mcp.NewTools("Copilot Bridge", "The tools of the workspace that is open in the editor, unsaved documents included, under the user's policy.", tools,
		mcp.Options{Version: b.opts.Version, Logger: b.opts.Logger, Enter: b.enter}), nil
}
