package toolbus

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// method is a row of the table.
type method struct {
	name    string
	summary string
	about   string // more than the summary says; may be empty
	params  reflect.Type
	result  reflect.Type // nil: it is only ever a notification
	fields  []field
	// inline methods are quick and run at once, in the order in which they
	// come, whatever else runs: those that steer the others must not wait for
	// them.
	inline  bool
	example example
	call    func(ctx context.Context, c *call, params any) (any, error)
}

// field is a parameter.
type field struct {
	name     string
	index    int
	required bool
	enum     []string // what it may be; nil: anything
}

// example is one use of a method.
type example struct {
	params any
	result any
}

// none are the parameters of methods without any.
type none struct{}

// define makes a row from a function; its types are those of the parameters
// and of the result.
func define[P, R any](name, summary string, f func(ctx context.Context, c *call, p P) (R, error), params P, result R) method {
	return row(name, summary, func(ctx context.Context, c *call, p P) (any, error) { return f(ctx, c, p) }, params, result)
}

// row is define for a function whose result is described by R, but has a form
// that resultMessage knows.
func row[P, R any](name, summary string, f func(ctx context.Context, c *call, p P) (any, error), params P, result R) method {
	m := method{
		name: name, summary: summary,
		params: reflect.TypeFor[P](), result: reflect.TypeFor[R](),
		example: example{params, result},
		call: func(ctx context.Context, c *call, params any) (any, error) {
			p, ok := params.(*P)
			if !ok {
				return nil, fmt.Errorf("parameters of type %T", params)
			}
			return f(ctx, c, *p)
		},
	}
	for i := range m.params.NumField() {
		f := m.params.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		one := field{name: name, index: i, required: !strings.Contains(options, "omitempty")}
		if values := f.Tag.Get("enum"); values != "" {
			one.enum = strings.Split(values, ",")
		}
		m.fields = append(m.fields, one)
	}
	return m
}

// explained and atOnce finish a row.
func (m method) explained(about string) method { m.about = about; return m }
func (m method) atOnce() method                { m.inline = true; return m }

// decode reads parameters, by name or by position, into a pointer to the
// method's struct. Null is the same as nothing; a name that the method does
// not have is refused, since it may be a misspelt dryRun.
func (m *method) decode(params json.RawMessage) (any, error) {
	into := reflect.New(m.params)
	given := make([]bool, len(m.fields))
	set := func(i int, at string, value json.RawMessage) error {
		if wire.KindOf(value) == wire.Null {
			return nil
		}
		given[i] = true
		target := into.Elem().Field(m.fields[i].index)
		if err := wire.Unmarshal(value, target.Addr().Interface()); err != nil {
			return wire.Within(at, err)
		}
		if enum := m.fields[i].enum; enum != nil && !slices.Contains(enum, target.String()) {
			return wire.At(at, "expected one of %s", strings.Join(enum, ", "))
		}
		return nil
	}
	var err error
	switch wire.KindOf(params) {
	case wire.Object:
		err = members(params, func(name string, value json.RawMessage) error {
			i := slices.IndexFunc(m.fields, func(f field) bool { return f.name == name })
			if i < 0 {
				return wire.At("params", "there is no parameter %q; %s", text.Clip(name, 64), m.names())
			}
			return set(i, "params."+name, value)
		})
	case wire.Array:
		var all []json.RawMessage
		if err = json.Unmarshal(params, &all); err == nil && len(all) > len(m.fields) {
			err = wire.At("params", "too many; %s", m.names())
		}
		for i := 0; err == nil && i < len(all); i++ {
			err = set(i, fmt.Sprintf("params[%d]", i), all[i])
		}
	case wire.Invalid, wire.Null, wire.Bool, wire.Number, wire.String: // the envelope lets only nothing pass
	}
	if err != nil {
		return nil, err
	}
	for i, f := range m.fields {
		if f.required && !given[i] {
			return nil, wire.At("params."+f.name, "is missing; %s", m.names())
		}
	}
	return into.Interface(), nil
}

func (m *method) names() string {
	if len(m.fields) == 0 {
		return m.name + " takes no parameters"
	}
	var names []string
	for _, f := range m.fields {
		name := f.name
		if !f.required {
			name += "?"
		}
		names = append(names, name)
	}
	return m.name + " takes " + strings.Join(names, ", ")
}
