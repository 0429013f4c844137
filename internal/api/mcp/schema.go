package mcp

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// shapeOf is the schema of a type.
func shapeOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // a mistake in the types, which every test finds
	}
	wire.PlainSchema(s)
	return s
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
