package toolbus

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// prefix is what the methods of the workspace begin with.
const prefix = "mcp."

// looking are the methods that change nothing.
var looking = []string{"mcp.fs.read", "mcp.fs.list", "mcp.search.code", "mcp.symbols.list", "mcp.task.list"}

// Tools are the methods of a workspace as tools, with the same parameters,
// results and errors. They may be called concurrently.
func Tools(ws Workspace) ([]wire.Tool, error) {
	types, err := special()
	if err != nil {
		return nil, err
	}
	var out []wire.Tool
	for _, m := range (&door{ws: ws}).table() {
		name, ok := strings.CutPrefix(m.name, prefix)
		if !ok {
			continue
		}
		schema, err := jsonschema.ForType(m.params, types)
		if err != nil {
			return nil, err
		}
		wire.PlainSchema(schema)
		t := wire.Tool{Name: strings.ReplaceAll(name, ".", "_"), Title: m.summary, About: m.summary + ".", Params: schema, ReadOnly: slices.Contains(looking, m.name)}
		if m.about != "" {
			t.About += " " + m.about
		}
		t.Call = func(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
			p, err := m.decode(params)
			if err != nil {
				return nil, err
			}
			result, err := m.call(ctx, &call{}, p) // without an id there is no progress
			if err != nil {
				return nil, err
			}
			return encode(result)
		}
		out = append(out, t)
	}
	return out, nil
}
