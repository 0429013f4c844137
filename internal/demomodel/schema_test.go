package demomodel

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestInstance(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"object", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"}},"required":["a","b"]}`, `{"a":"rehearsal","b":0}`},
		{"nested", `{"type":"object","required":["x"],"properties":{"x":{"type":"object","required":["y"],"properties":{"y":{"type":"array","minItems":2,"items":{"type":"number"}}}}}}`, `{"x":{"y":[0,0]}}`},
		{"const", `{"const":{"a":[1,null]}}`, `{"a":[1,null]}`},
		{"enum", `{"enum":[null,"b","a"]}`, `"b"`},
		{"enum of null", `{"enum":[null]}`, `null`},
		{"nullable", `{"type":["null","integer"]}`, `0`},
		{"null", `{"type":"null"}`, `null`},
		{"ref", `{"$defs":{"n":{"type":"integer","minimum":3}},"type":"array","minItems":1,"items":{"$ref":"#/$defs/n"}}`, `[3]`},
		{"anyOf", `{"anyOf":[{"type":"null"},{"type":"boolean"}]}`, `false`},
		{"allOf", `{"allOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"const":2}},"required":["b"]}]}`, `{"a":1,"b":2}`},
		{"recursive", `{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["v"]}`, `{"v":0}`},
		{"negative", `{"type":"integer","maximum":-3}`, `-3`},
		{"length", `{"type":"string","minLength":12,"maxLength":12}`, `"rehearsal..."`},
		{"short", `{"type":"string","maxLength":3}`, `"reh"`},
		{"untyped", `{"properties":{"a":{}},"required":["a"]}`, `{"a":"rehearsal"}`},
		{"required but not described", `{"type":"object","required":["a"]}`, `{"a":"rehearsal"}`},
		{"none", ``, `{}`},
		{"not JSON", `{`, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := json.Marshal(instance(json.RawMessage(tt.schema)))
			if err != nil || string(b) != tt.want {
				t.Errorf("got %s, want %s (%v)", b, tt.want, err)
			}
		})
	}
}

// Schemas that grow without end must not take the instance with them.
func TestInstanceIsBounded(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#"}`,
		`{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		`{"type":"object","required":["a","b","c"],"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"$ref":"#"}}}`,
		`{"type":"array","minItems":1000,"items":{"type":"array","minItems":1000,"items":{"type":"array","minItems":1000}}}`,
		`{"type":"string","minLength":1e300}`, `{"type":"array","minItems":1e300}`, `{"type":"integer","minimum":1e300}`,
		`{"type":"string","pattern":"` + strings.Repeat("(", 300) + strings.Repeat(")*", 300) + `","minLength":300}`,
	} {
		b, err := json.Marshal(instance(json.RawMessage(schema)))
		if err != nil || len(b) > 1<<20 {
			t.Errorf("%.80s: %d bytes, %v", schema, len(b), err)
		}
	}
}

// Every schema of the kinds that structured outputs know gets an instance
// that satisfies it.
func TestInstanceSatisfies(t *testing.T) {
	for seed := range uint64(3000) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		schema, err := json.Marshal(g.schema(4))
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(instance(schema))
		if err != nil {
			t.Fatal(err)
		}
		var s checked
		var v any
		if json.Unmarshal(schema, &s) != nil || json.Unmarshal(b, &v) != nil {
			t.Fatal("not JSON")
		}
		if why := s.violation(v); why != "" {
			t.Fatalf("seed %d: %s\nschema   %s\ninstance %s", seed, why, schema, b)
		}
	}
}

type generator struct{ *rand.Rand }

func (g generator) schema(depth int) map[string]any {
	kinds := []func(int) map[string]any{g.text, g.number, g.constant}
	if depth > 0 {
		kinds = append(kinds, g.object, g.object, g.array, g.choice)
	}
	return kinds[g.IntN(len(kinds))](depth)
}

func (g generator) text(int) map[string]any {
	s := map[string]any{"type": "string"}
	switch g.IntN(4) {
	case 0:
		s["minLength"] = g.IntN(30)
		s["maxLength"] = 30 + g.IntN(5)
	case 2:
		s["maxLength"] = g.IntN(12)
	}
	return s
}

func (g generator) number(int) map[string]any {
	s := map[string]any{"type": []string{"integer", "number"}[g.IntN(2)]}
	low := g.IntN(200) - 100
	switch g.IntN(5) {
	case 0:
		s["minimum"] = low
	case 1:
		s["maximum"] = low
	case 2:
		s["minimum"], s["maximum"] = low, low+g.IntN(20)
	}
	return s
}

func (g generator) constant(int) map[string]any {
	switch g.IntN(4) {
	case 0:
		return map[string]any{"const": []any{"x", 7, nil, true}[g.IntN(4)]}
	case 1:
		return map[string]any{"enum": []any{nil, "a", 5}}
	case 2:
		return map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": []string{"null", "string"}}
}

func (g generator) object(depth int) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range g.IntN(5) {
		name := fmt.Sprintf("p%d", i)
		properties[name] = g.schema(depth - 1)
		if g.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func (g generator) array(depth int) map[string]any {
	return map[string]any{"type": "array", "items": g.schema(depth - 1), "minItems": g.IntN(4)}
}

func (g generator) choice(depth int) map[string]any {
	return map[string]any{"anyOf": []any{g.schema(depth - 1), g.schema(depth - 1)}}
}

// checked is a schema with the keywords that generator uses.
type checked struct {
	Type       any                `json:"type"`
	Const      json.RawMessage    `json:"const"`
	Enum       []any              `json:"enum"`
	AnyOf      []*checked         `json:"anyOf"`
	Properties map[string]checked `json:"properties"`
	Required   []string           `json:"required"`
	Items      *checked           `json:"items"`
	MinItems   int                `json:"minItems"`
	MinLength  int                `json:"minLength"`
	MaxLength  *int               `json:"maxLength"`
	Minimum    *float64           `json:"minimum"`
	Maximum    *float64           `json:"maximum"`
}

// violation says how v fails the schema.
func (s *checked) violation(v any) string {
	if s.Const != nil {
		s.Enum = make([]any, 1)
		if json.Unmarshal(s.Const, &s.Enum[0]) != nil {
			return "the constant is not JSON"
		}
	}
	if s.Enum != nil {
		if !slices.ContainsFunc(s.Enum, func(e any) bool { return reflect.DeepEqual(e, v) }) {
			return fmt.Sprintf("%v is not in %v", v, s.Enum)
		}
		return ""
	}
	if s.AnyOf != nil {
		if !slices.ContainsFunc(s.AnyOf, func(b *checked) bool { return b.violation(v) == "" }) {
			return fmt.Sprintf("%v fits no branch", v)
		}
		return ""
	}
	wants := fmt.Sprint(s.Type)
	ok := false
	switch v := v.(type) {
	case string:
		n := utf8.RuneCountInString(v)
		ok = strings.Contains(wants, "string") && n >= s.MinLength && (s.MaxLength == nil || n <= *s.MaxLength)
	case float64:
		ok = wants == "number" || wants == "integer" && v == math.Trunc(v)
		ok = ok && (s.Minimum == nil || v >= *s.Minimum) && (s.Maximum == nil || v <= *s.Maximum)
	case bool:
		ok = wants == "boolean"
	case nil:
		ok = strings.Contains(wants, "null")
	case []any:
		ok = wants == "array" && len(v) >= s.MinItems
		for _, item := range v {
			if why := s.Items.violation(item); why != "" {
				return why
			}
		}
	case map[string]any:
		ok = wants == "object"
		for _, name := range s.Required {
			if _, present := v[name]; !present {
				return name + " is missing"
			}
		}
		for name, item := range v {
			p, known := s.Properties[name]
			if !known {
				return name + " is not allowed"
			}
			if why := p.violation(item); why != "" {
				return why
			}
		}
	}
	if !ok {
		return fmt.Sprintf("%#v does not fit %s", v, wants)
	}
	return ""
}

func FuzzInstance(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/x"}},"required":["a"],"x":{"anyOf":[{"type":"null"},{"pattern":"a{2,5}[^x]"}]}}`))
	f.Add([]byte(`{"type":["array","null"],"minItems":3,"uniqueItems":true,"prefixItems":[true],"items":{"multipleOf":0.1,"minimum":-5}}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		b, err := json.Marshal(instance(schema))
		if err != nil || len(b) > 64<<20 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
}
