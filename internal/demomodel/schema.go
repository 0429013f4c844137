package demomodel

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

const (
	maxSchemaDepth = 24
	maxNodes       = 10000 // of one instance
	maxLength      = 10000 // of one string or array
)

// schema is what instance reads of a JSON schema.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        any               `json:"type"`
	Const       json.RawMessage   `json:"const"`
	Enum        []json.RawMessage `json:"enum"`
	AnyOf       []schema          `json:"anyOf"`
	OneOf       []schema          `json:"oneOf"`
	AllOf       []schema          `json:"allOf"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Items       json.RawMessage   `json:"items"`
	MinItems    float64           `json:"minItems"`
	MinLength   float64           `json:"minLength"`
	MaxLength   *float64          `json:"maxLength"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	Definitions map[string]schema `json:"$defs"`
}

// instance makes a small value for a JSON schema: required properties only, the
// first of each choice. It knows the keywords above, which are most of what
// structured outputs and tools use; a value may break others, such as pattern.
func instance(raw json.RawMessage) any {
	var root schema
	if len(raw) == 0 || json.Unmarshal(raw, &root) != nil {
		return map[string]any{}
	}
	b := builder{root: root}
	return b.build(root, 0)
}

type builder struct {
	root  schema
	nodes int
}

func (b *builder) build(s schema, depth int) any {
	b.nodes++
	if depth > maxSchemaDepth || b.nodes > maxNodes {
		return nil
	}
	switch choices := slices.Concat(s.AnyOf, s.OneOf); {
	case s.Ref == "#":
		return b.build(b.root, depth+1)
	case s.Ref != "":
		return b.build(b.root.Definitions[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]], depth+1)
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		for _, v := range s.Enum { // null is allowed but says little
			if string(v) != "null" {
				return v
			}
		}
		return nil
	case len(choices) > 0:
		for _, c := range choices {
			if c.Type != "null" {
				return b.build(c, depth+1)
			}
		}
		return nil
	}
	switch s.kind() {
	case "object":
		return b.object(s, depth, map[string]any{})
	case "array":
		out := []any{}
		var items schema
		_ = json.Unmarshal(s.Items, &items) // true and false are schemas too
		for len(out) < int(min(s.MinItems, maxLength)) && b.nodes < maxNodes {
			out = append(out, b.build(items, depth+1))
		}
		return out
	case "integer", "number":
		v := 0.0
		if s.Minimum != nil {
			v = max(v, *s.Minimum)
		}
		if s.Maximum != nil {
			v = min(v, *s.Maximum)
		}
		return json.Number(strconv.FormatFloat(v, 'f', -1, 64))
	case "boolean":
		return false
	case "null":
		return nil
	}
	v := "rehearsal"
	v += strings.Repeat(".", max(0, int(min(s.MinLength, maxLength))-len(v)))
	if s.MaxLength != nil {
		v = v[:min(len(v), max(0, int(*s.MaxLength)))]
	}
	return v
}

func (b *builder) object(s schema, depth int, out map[string]any) map[string]any {
	for _, name := range s.Required {
		out[name] = b.build(s.Properties[name], depth+1)
	}
	for _, part := range s.AllOf {
		if b.nodes++; depth < maxSchemaDepth && b.nodes < maxNodes {
			if part.Ref != "" {
				part = b.root.Definitions[part.Ref[strings.LastIndexByte(part.Ref, '/')+1:]]
			}
			b.object(part, depth+1, out)
		}
	}
	return out
}

// kind is the JSON type to make.
func (s *schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, v := range t {
			if name, ok := v.(string); ok && name != "null" {
				return name
			}
		}
		return "null"
	}
	if s.Properties != nil || s.Required != nil || s.AllOf != nil {
		return "object"
	}
	return "string"
}
