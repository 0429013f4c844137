package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// NewTools serves tools of a workspace. The caller must close it.
func NewTools(title, instructions string, tools []wire.Tool, opts Options) *Server {
	s := newServer("copilot-bridge", title, instructions, opts, nil)
	for _, t := range tools {
		s.mcp.AddTool(&sdk.Tool{Name: t.Name, Title: t.Title, Description: t.About, InputSchema: t.Params, Annotations: annotations(t.Title, t.ReadOnly, !t.ReadOnly, false)},
			func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				res := &sdk.CallToolResult{}
				err := s.within(ctx, req, 0, func(ctx context.Context) error {
					p := newProgress(ctx)
					defer p.stop()
					out, err := t.Call(ctx, req.Params.Arguments)
					res.Content, res.StructuredContent = []sdk.Content{&sdk.TextContent{Text: string(out)}}, out
					return err
				})
				if err != nil {
					res = &sdk.CallToolResult{}
					res.SetError(err) // which coded words
				}
				return res, nil
			})
	}
	return s
}
