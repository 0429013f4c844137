package acpwire

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Rest are the fields of a message that this version has no name for, as they
// came. They are written again behind the known ones.
type Rest map[string]json.RawMessage

// Meta decodes one entry of "_meta" into v and says whether there was one.
func (r Rest) Meta(name string, v any) bool {
	var meta map[string]json.RawMessage
	if json.Unmarshal(r["_meta"], &meta) != nil {
		return false
	}
	raw, ok := meta[name]
	return ok && json.Unmarshal(raw, v) == nil
}

// unmarshal decodes b into v, a pointer to a struct without methods, and what
// v has no field for into rest.
func unmarshal(b []byte, v any, rest *Rest) error {
	if err := json.Unmarshal(b, v); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		delete(all, name)
	}
	*rest = nil
	if len(all) > 0 {
		*rest = all
	}
	return nil
}

// must is a field that the schema requires even where it is empty, and what
// to write then.
type must struct{ name, empty string }

// marshal is the reverse of unmarshal. Known fields win over the rest.
func marshal(v any, rest Rest, required ...must) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil || len(rest) == 0 && len(required) == 0 {
		return b, err
	}
	var known map[string]json.RawMessage
	if err := json.Unmarshal(b, &known); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(b[:len(b)-1])
	add := func(name string, value []byte) error {
		if _, ok := known[name]; ok {
			return nil
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
		return nil
	}
	for _, m := range required {
		if err := add(m.name, []byte(m.empty)); err != nil {
			return nil, err
		}
		if known == nil {
			known = map[string]json.RawMessage{}
		}
		known[m.name] = nil
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		if err := add(name, rest[name]); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// List is a list that the schema requires: without elements it is written as
// [], not as null.
type List[T any] []T

// MarshalJSON writes a list, never null.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}
