package mcp

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools of OpenClaw's memory.
const (
	ToolMemorySearch = "openclaw_memory_search"
	ToolMemoryRead   = "openclaw_memory_read"
	ToolUserPrefs    = "openclaw_user_prefs"
)

const defaultHits = 5

type searchInput struct {
	Query string `json:"query" jsonschema:"a few words to look for"`
	Limit int    `json:"limit,omitempty" jsonschema:"most sections to return (default 5)"`
	Depth int    `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

type readInput struct {
	File  string `json:"file,omitempty" jsonschema:"a file that a search has named (default MEMORY.md)"`
	Depth int    `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

type noInput struct {
	Depth int `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

// NewMemory serves OpenClaw's memory. The caller must close it, or have Serve
// do so.
func NewMemory(m Memory, opts Options) *Server {
	s := newServer("copilot-bridge-openclaw", "OpenClaw's memory",
		"What the user's assistant OpenClaw remembers: projects, decisions, people, preferences. Read-only.", opts, nil)
	add(s, tool{name: ToolMemorySearch, title: "Search OpenClaw's memory", readOnly: true,
		about: "Search what the user's assistant OpenClaw remembers about the user, projects and earlier decisions. " +
			"Returns the sections of notes that fit best, with file, heading, line and a snippet.",
		limits: map[string]func(*jsonschema.Schema){
			"query": func(p *jsonschema.Schema) { p.MinLength, p.MaxLength = jsonschema.Ptr(1), jsonschema.Ptr(4096) },
			"limit": func(p *jsonschema.Schema) { p.Minimum, p.Maximum = jsonschema.Ptr(1.0), jsonschema.Ptr(50.0) },
		}},
		func(in searchInput) int { return in.Depth },
		func(ctx context.Context, _ *sdk.CallToolRequest, in searchInput) (*sdk.CallToolResult, Hits, error) {
			if in.Limit == 0 {
				in.Limit = defaultHits
			}
			hits, err := m.Search(ctx, in.Query, in.Limit)
			return nil, hits, err
		})
	add(s, tool{name: ToolMemoryRead, title: "Read OpenClaw's memory", readOnly: true,
		about: "Read a file of OpenClaw's memory: MEMORY.md, which holds what is worth knowing in the long run, or a note that a search has named."},
		func(in readInput) int { return in.Depth },
		func(ctx context.Context, _ *sdk.CallToolRequest, in readInput) (*sdk.CallToolResult, Document, error) {
			doc, err := m.Read(ctx, in.File)
			return nil, doc, err
		})
	add(s, tool{name: ToolUserPrefs, title: "Read the user's preferences", readOnly: true,
		about: "Read the preferences that the user has told OpenClaw (USER.md): how to write code, what to avoid, how to be addressed."},
		func(in noInput) int { return in.Depth },
		func(ctx context.Context, _ *sdk.CallToolRequest, _ noInput) (*sdk.CallToolResult, Document, error) {
			doc, err := m.Preferences(ctx)
			return nil, doc, err
		})
	return s
}
