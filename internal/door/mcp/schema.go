package mcp

import (
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// shapeOf is the schema of a type, in words that every client understands:
// a list is a list, and never null. Some clients map schemas to dialects that
// know one type a value.
func shapeOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // a mistake in the types, which every test finds
	}
	plain(s)
	return s
}

func plain(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if slices.Equal(s.Types, []string{"null", "array"}) {
		s.Type, s.Types = "array", nil
	}
	plain(s.Items)
	for _, p := range s.Properties {
		plain(p)
	}
}

// withLists makes empty lists of those that are nil, as the schema promises.
func withLists[T any](v T) T {
	fillLists(reflect.ValueOf(&v).Elem())
	return v
}

func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // bytes are a text
		}
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fillLists(v.Field(i))
			}
		}
	default:
	}
}
