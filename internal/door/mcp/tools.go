package mcp

import (
	"context"
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Tool is a tool that somebody else has, with its parameters and results as
// JSON objects.
type Tool struct {
	Name, Title, About string
	Params             *jsonschema.Schema
	ReadOnly           bool
	Call               func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
}

// NewTools serves tools of a workspace. The caller must close it.
func NewTools(title, instructions string, tools []Tool, opts Options) *Server {
	s := newServer("copilot-bridge", title, instructions, opts, nil)
	for _, t := range tools {
		destructive, open := !t.ReadOnly, false
		s.mcp.AddTool(&sdk.Tool{Name: t.Name, Title: t.Title, Description: t.About, InputSchema: t.Params,
			Annotations: &sdk.ToolAnnotations{Title: t.Title, ReadOnlyHint: t.ReadOnly, IdempotentHint: t.ReadOnly, DestructiveHint: &destructive, OpenWorldHint: &open}},
			func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				res := &sdk.CallToolResult{}
				out, err := s.call(ctx, req, t)
				if err != nil {
					res.SetError(err) // which coded words
					return res, nil
				}
				res.Content, res.StructuredContent = []sdk.Content{&sdk.TextContent{Text: string(out)}}, out
				return res, nil
			})
	}
	return s
}

func (s *Server) call(ctx context.Context, req *sdk.CallToolRequest, t Tool) (json.RawMessage, error) {
	ctx, leave, err := s.enter(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer leave()
	p := s.progress(ctx, req)
	defer p.stop()
	out, err := t.Call(ctx, req.Params.Arguments)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // why it was ended, rather than how it took it
	}
	if err != nil {
		return nil, bridge.AsError(err)
	}
	return out, nil
}
