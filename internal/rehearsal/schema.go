package rehearsal

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	maxSchemaDepth = 24
	shallowDepth   = 6     // past this, choices that end a recursion are preferred
	maxNodes       = 10000 // of one instance
	maxLength      = 10000 // of one string
)

// instance makes a small value that satisfies a JSON schema: required
// properties only, first of each enumeration. It knows the keywords of
// OpenAI's structured outputs and passes over others (not, if, contains,
// dependent…); for a schema that nothing satisfies it still returns a value.
func instance(raw json.RawMessage) any {
	var root any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if len(raw) == 0 || dec.Decode(&root) != nil {
		return map[string]any{}
	}
	b := builder{root: root}
	return b.build(root, 0, 0)
}

type builder struct {
	root  any
	nodes int
}

type schema = map[string]any

// build makes the nth value for a schema; values of different n differ where
// the schema lets them, for arrays of unique items.
func (b *builder) build(node any, depth, n int) any {
	b.nodes++
	s, ok := node.(schema)
	if !ok || depth > maxSchemaDepth || b.nodes > maxNodes {
		return nil
	}
	s = b.flatten(s, depth)
	if c, ok := s["const"]; ok {
		return c
	}
	if enum, ok := s["enum"].([]any); ok && len(enum) > 0 {
		// null is allowed but says little.
		if i := slices.IndexFunc(enum, func(v any) bool { return v != nil }); i > 0 && n == 0 {
			n = i
		}
		return enum[n%len(enum)]
	}
	switch kindOf(s, depth) {
	case "object":
		return b.object(s, depth)
	case "array":
		return b.array(s, depth)
	case "integer":
		return json.Number(strconv.FormatFloat(number(s, 1, n), 'f', -1, 64))
	case "number":
		return json.Number(strconv.FormatFloat(number(s, 0, n), 'f', -1, 64))
	case "boolean":
		return n%2 == 1
	case "null":
		return nil
	}
	return text(s, n)
}

// flatten resolves references and unites s with what allOf adds and with one
// branch of anyOf and oneOf.
func (b *builder) flatten(s schema, depth int) schema {
	b.nodes++
	if depth > maxSchemaDepth || b.nodes > maxNodes {
		return schema{"type": "null"}
	}
	var parts []any
	if ref, ok := s["$ref"].(string); ok {
		parts = append(parts, b.resolve(ref))
	}
	if list, ok := s["allOf"].([]any); ok {
		parts = append(parts, list...)
	}
	for _, choice := range []string{"anyOf", "oneOf"} {
		if list, ok := s[choice].([]any); ok {
			parts = append(parts, pick(list, depth))
		}
	}
	if len(parts) == 0 {
		return s
	}
	united := schema{}
	for k, v := range s {
		if k != "$ref" && k != "allOf" && k != "anyOf" && k != "oneOf" {
			united[k] = v
		}
	}
	for _, p := range parts {
		if add, ok := p.(schema); ok {
			merge(united, b.flatten(add, depth+1))
		}
	}
	return united
}

// pick chooses a branch: the first that is not null, and deep down the first
// that does not lead deeper.
func pick(list []any, depth int) any {
	var first any
	for _, v := range list {
		s, ok := v.(schema)
		if !ok {
			continue
		}
		_, ref := s["$ref"]
		t, _ := s["type"].(string)
		leaf := !ref && t != "object" && t != "array" && t != ""
		if depth > shallowDepth && leaf {
			return v
		}
		if first == nil && t != "null" {
			first = v
		}
	}
	if first == nil && len(list) > 0 {
		return list[0]
	}
	return first
}

func merge(into, add schema) {
	for k, v := range add {
		old, present := into[k]
		switch a := v.(type) {
		case schema:
			if o, ok := old.(schema); ok && k == "properties" {
				both := schema{}
				merge(both, o)
				merge(both, a)
				into[k] = both
				continue
			}
		case []any:
			if o, ok := old.([]any); ok && k == "required" {
				into[k] = append(slices.Clone(o), a...)
				continue
			}
		}
		// Of two lower bounds the higher holds, of two upper bounds the lower.
		if present && strings.HasPrefix(strings.ToLower(k), "min") && toFloat(old, 0) > toFloat(v, 0) {
			continue
		}
		if present && strings.HasPrefix(strings.ToLower(k), "max") && toFloat(old, 0) < toFloat(v, 0) {
			continue
		}
		into[k] = v
	}
}

// resolve follows a reference inside the document.
func (b *builder) resolve(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := b.root
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := at.(type) {
		case schema:
			at = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// kindOf returns the JSON type to make.
func kindOf(s schema, depth int) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if depth > shallowDepth && slices.Contains(t, any("null")) {
			return "null"
		}
		for _, v := range t {
			if name, ok := v.(string); ok && name != "null" {
				return name
			}
		}
		return "null"
	}
	for _, hint := range [][2]string{
		{"properties", "object"}, {"required", "object"}, {"minProperties", "object"}, {"items", "array"}, {"prefixItems", "array"},
		{"minItems", "array"}, {"minimum", "number"}, {"maximum", "number"}, {"multipleOf", "number"},
	} {
		if _, ok := s[hint[0]]; ok {
			return hint[1]
		}
	}
	return "string"
}

func toFloat(v any, otherwise float64) float64 {
	n, ok := v.(json.Number)
	if !ok {
		return otherwise
	}
	f, err := n.Float64()
	if err != nil || math.IsNaN(f) {
		return otherwise
	}
	return f
}
