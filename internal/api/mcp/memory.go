package mcp

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw"
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
	nested
}

type readInput struct {
	File string `json:"file,omitempty" jsonschema:"a file that a search has named (default MEMORY.md)"`
	nested
}

// Memory is what OpenClaw remembers: *openclaw.Memory. Its methods are called
// concurrently.
type Memory interface {
	Search(ctx context.Context, query string, limit int) (openclaw.Found, error)
	Read(ctx context.Context, file string) (openclaw.Document, error)
	Preferences(ctx context.Context) (openclaw.Document, error)
}

// NewMemory serves OpenClaw's memory under a guard. The caller must close it,
// or have Serve do so.
func NewMemory(m Memory, g guard.Judge, opts Options) *Server {
	s := newServer("copilot-bridge-openclaw", "OpenClaw's memory",
		"What the user's assistant OpenClaw remembers: projects, decisions, people, preferences. Read-only.", opts, nil)
	add(s, tool{name: ToolMemorySearch, title: "Search OpenClaw's memory", readOnly: true,
		about: "Search what the user's assistant OpenClaw remembers about the user, projects and earlier decisions. " +
			"Returns the sections of notes that fit best, with file, heading, line and a snippet.",
		bounds: map[string]bounds{"query": {least: 1, most: 4096}, "limit": {least: 1, most: 50}}},
		withoutText(func(ctx context.Context, in searchInput) (openclaw.Found, error) {
			if in.Limit == 0 {
				in.Limit = defaultHits
			}
			call := bridge.ToolCall{Name: ToolMemorySearch, Args: map[string]any{"query": in.Query, "limit": float64(in.Limit)}}
			return guarded(ctx, g, call, func() (openclaw.Found, error) { return m.Search(ctx, in.Query, in.Limit) }, func(f *openclaw.Found) []*string {
				var texts []*string
				for i := range f.Hits {
					texts = append(texts, &f.Hits[i].Snippet, &f.Hits[i].Heading)
				}
				return texts
			})
		}))
	content := func(d *openclaw.Document) []*string { return []*string{&d.Content} }
	add(s, tool{name: ToolMemoryRead, title: "Read OpenClaw's memory", readOnly: true,
		about: "Read a file of OpenClaw's memory: MEMORY.md, which holds what is worth knowing in the long run, or a note that a search has named."},
		withoutText(func(ctx context.Context, in readInput) (openclaw.Document, error) {
			call := bridge.ToolCall{Name: ToolMemoryRead, Args: map[string]any{"name": in.File}}
			return guarded(ctx, g, call, func() (openclaw.Document, error) { return m.Read(ctx, in.File) }, content)
		}))
	add(s, tool{name: ToolUserPrefs, title: "Read the user's preferences", readOnly: true,
		about: "Read the preferences that the user has told OpenClaw (USER.md): how to write code, what to avoid, how to be addressed."},
		withoutText(func(ctx context.Context, _ nested) (openclaw.Document, error) {
			return guarded(ctx, g, bridge.ToolCall{Name: ToolUserPrefs}, func() (openclaw.Document, error) { return m.Preferences(ctx) }, content)
		}))
	return s
}

// guarded looks something up under the guard.
func guarded[T any](ctx context.Context, g guard.Judge, call bridge.ToolCall, look func() (T, error), texts func(*T) []*string) (T, error) {
	return guard.Do(ctx, g, call, guard.Denied(call.Name, "change the policy, see docs/guides/policy.md"), func(bridge.Decision) (T, error) { return look() }, texts)
}
