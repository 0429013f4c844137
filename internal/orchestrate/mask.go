package orchestrate

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// hide returns v with the secrets in its strings hidden, for everything that a
// run keeps or shows. The model gets the same masked text, so a resumed run
// loses nothing.
func hide[T any](mask func(string) string, v T) (T, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return v, fmt.Errorf("encode %T: %w", v, err)
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // durations have more digits than a float
	if err := dec.Decode(&tree); err != nil {
		return v, fmt.Errorf("decode %T: %w", v, err)
	}
	changed := false
	tree = mapStrings(tree, func(s string) string {
		clean := mask(s)
		changed = changed || clean != s
		return clean
	})
	if !changed {
		return v, nil
	}
	var out T
	if data, err = json.Marshal(tree); err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return v, fmt.Errorf("decode %T: %w", v, err)
	}
	return out, nil
}

// mapStrings puts f(s) in the place of every string of a JSON value, names
// included.
func mapStrings(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = mapStrings(v[i], f)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[f(name)] = mapStrings(value, f)
		}
		return out
	}
	return v
}
