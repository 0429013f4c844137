package anthropic

import (
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// format returns the schema that the answer has to follow, if any.
func (r *request) format() (*bridge.ResponseFormat, error) {
	path, f := "output_format", r.OutputFormat
	if r.OutputConfig != nil && r.OutputConfig.Format != nil {
		path, f = "output_config.format", r.OutputConfig.Format
	}
	if f == nil {
		return nil, nil
	}
	if f.Type != "json_schema" {
		return nil, wire.At(path+".type", `expected "json_schema", got %s`, quote(f.Type))
	}
	if wire.KindOf(f.Schema) != wire.Object {
		return nil, wire.At(path+".schema", "a JSON schema is required")
	}
	var schema any
	if err := wire.Unmarshal(f.Schema, &schema); err != nil {
		return nil, wire.Within(path+".schema", err)
	}
	return &bridge.ResponseFormat{Name: "output", Schema: f.Schema, Strict: exact(schema)}, nil
}

// exact reports whether providers that follow a schema to the letter would take
// this one: they insist that objects list all their properties as required and
// allow no others. This API is more liberal; where a schema makes use of that,
// it is followed as well as the provider can.
func exact(schema any) bool {
	switch v := schema.(type) {
	case map[string]any:
		if properties, ok := v["properties"].(map[string]any); ok || v["type"] == "object" {
			required, _ := v["required"].([]any)
			if v["additionalProperties"] != false || len(required) != len(properties) {
				return false
			}
		}
		for _, part := range v {
			if !exact(part) {
				return false
			}
		}
	case []any:
		for _, part := range v {
			if !exact(part) {
				return false
			}
		}
	}
	return true
}
