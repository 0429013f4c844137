package wire

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// Tool is a tool that one API has and another serves, with its parameters and
// results as JSON objects.
type Tool struct {
	Name, Title, About string
	Params             *jsonschema.Schema // of an object with the parameters by name
	ReadOnly           bool
	// Call runs it. Its errors are *bridge.Error.
	Call func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
}

// PlainSchema changes a schema that was made of a Go type so that lists are
// never null. Some clients map schemas to dialects that know one type a value.
func PlainSchema(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if slices.Equal(s.Types, []string{"null", "array"}) {
		s.Type, s.Types = "array", nil
	}
	PlainSchema(s.Items)
	for _, p := range s.Properties {
		PlainSchema(p)
	}
}
