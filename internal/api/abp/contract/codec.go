package contract

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// ABP's types are Go structs whose `abp` tags name the members on the wire, in
// the order in which ABP writes them. After the name a tag may say how a member
// may be absent; a pointer may always be absent or null.
//
//	optional=VALUE  absent means VALUE
//	host=VALUE      absent or null means VALUE, or empty, in a host's lines only
//	omit            absent, null or nil; it is not written then
const (
	needOptional = "optional"
	needHost     = "host"
	needOmit     = "omit"
)

// member is a field of a struct on the wire.
type member struct {
	name     string
	index    int
	need     string
	fallback string
	pointer  bool
}

// structure is how a type is read and written.
type structure struct {
	typ    reflect.Type
	wire   []member // in ABP's order
	sorted []member // by name, for the canonical form
}

// structureOf reads the tags of a struct. With names it has only these members.
func structureOf(t reflect.Type, names ...string) *structure {
	s := &structure{typ: t}
	for i := range t.NumField() {
		name, rest, _ := strings.Cut(t.Field(i).Tag.Get("abp"), ",")
		if name == "" || len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		need, fallback, _ := strings.Cut(rest, "=")
		s.wire = append(s.wire, member{name, i, need, fallback, t.Field(i).Type.Kind() == reflect.Pointer})
	}
	s.sorted = slices.Clone(s.wire)
	slices.SortStableFunc(s.sorted, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return s
}

var structures = func() map[reflect.Type]*structure {
	out := map[reflect.Type]*structure{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || out[t] != nil {
			return
		}
		out[t] = structureOf(t)
		for _, m := range out[t].wire {
			add(t.Field(m.index).Type)
		}
	}
	for _, e := range []Envelope{&Hello{}, &Run{}, &Happened{}, &Final{}, &Fatal{}, &Cancel{}, &Ping{}, &Pong{}} {
		add(reflect.TypeOf(e))
	}
	return out
}()

// structureFor returns the structure of a struct; an event's depends on its kind.
func structureFor(v reflect.Value) *structure {
	if v.Type() == eventType {
		e, _ := v.Addr().Interface().(*Event)
		return eventStructures[e.Kind]
	}
	return structures[v.Type()]
}

// reader makes ABP's types of values. Lenient, it takes absent and null members
// for empty wherever that has a meaning.
type reader struct{ lenient bool }

// custom is a type that reads itself.
type custom interface {
	read(r reader, v any) error
}

// enumeration is a string with a fixed set of values.
type enumeration interface {
	values() []string
}

// fieldError says where in a structure something is wrong.
type fieldError struct {
	path string
	err  error
}

func (e *fieldError) Error() string { return e.err.Error() + " (in " + e.path + ")" }
func (e *fieldError) Unwrap() error { return e.err }

// in puts a name in front of the path of an error.
func in(name string, err error) error {
	if inner, ok := err.(*fieldError); ok { //nolint:errorlint // only what this package has just made is extended
		return &fieldError{name + "." + inner.path, inner.err}
	}
	return &fieldError{name, err}
}

// read gives a variable the value v.
func (r reader) read(v any, to reflect.Value) error {
	switch to.Kind() { // the common kinds first
	case reflect.Pointer:
		if v == nil {
			return nil
		}
		p := reflect.New(to.Type().Elem())
		to.Set(p)
		return r.read(v, p.Elem())
	case reflect.Interface:
		if v != nil {
			to.Set(reflect.ValueOf(v))
		}
		return sound(v)
	case reflect.Bool:
		b, ok := v.(bool)
		to.SetBool(b)
		return expect(ok, v, "a boolean")
	case reflect.Int32, reflect.Uint32, reflect.Uint64, reflect.Float64:
		return readNumber(v, to)
	default:
	}
	switch c := to.Addr().Interface().(type) {
	case custom:
		return c.read(r, v)
	case enumeration:
		return readEnumeration(v, to, c.values())
	}
	switch to.Kind() {
	case reflect.String:
		s, ok := v.(string)
		to.SetString(s)
		return expect(ok, v, "a string")
	case reflect.Slice:
		return r.readList(v, to)
	default:
		return r.readStruct(v, to, structureFor(to))
	}
}

func expect(ok bool, v any, want string) error {
	if ok {
		return nil
	}
	return unexpected(v, want)
}

func (r reader) readList(v any, to reflect.Value) error {
	all, ok := v.([]any)
	if !ok {
		return unexpected(v, "a sequence")
	}
	to.Set(reflect.MakeSlice(to.Type(), len(all), len(all)))
	for i, e := range all {
		if err := r.read(e, to.Index(i)); err != nil {
			return in(fmt.Sprintf("[%d]", i), err)
		}
	}
	return nil
}

// readStruct spreads an object over the fields of a struct. Unknown members are
// dropped; known ones may come only once.
func (r reader) readStruct(v any, to reflect.Value, s *structure) error {
	o, ok := v.(Object)
	if !ok && (v != nil || !r.lenient) {
		return unexpected(v, "struct "+s.typ.Name())
	}
	var seen uint32
	for _, m := range o {
		for i := range s.wire {
			f := &s.wire[i]
			if f.name != m.Key {
				continue
			}
			if seen&(1<<i) != 0 {
				return fmt.Errorf("duplicate field `%s`", f.name)
			}
			seen |= 1 << i
			var err error
			if m.Value == nil && (f.need == needOmit || f.need == needHost && r.lenient) {
				err = r.absent(f, to.Field(f.index))
			} else {
				err = r.read(m.Value, to.Field(f.index))
			}
			if err != nil {
				return in(f.name, err)
			}
			break
		}
	}
	for i := range s.wire {
		if seen&(1<<i) == 0 {
			if err := r.absent(&s.wire[i], to.Field(s.wire[i].index)); err != nil {
				return err
			}
		}
	}
	return nil
}

// absent gives a member that did not come its default.
func (r reader) absent(f *member, to reflect.Value) error {
	switch {
	case f.pointer || f.need == needOmit:
	case f.need == needOptional:
		to.SetString(f.fallback)
	case f.need != needHost || !r.lenient:
		return fmt.Errorf("missing field `%s`", f.name)
	case to.Kind() == reflect.Struct:
		return r.read(Object{}, to)
	case f.fallback != "":
		to.SetString(f.fallback)
	}
	return nil
}

// readNumber sets a number, if it is one that the kind can hold.
func readNumber(v any, to reflect.Value) error {
	want := map[reflect.Kind]string{reflect.Int32: "i32", reflect.Uint32: "u32", reflect.Uint64: "u64", reflect.Float64: "f64"}[to.Kind()]
	given := reflect.ValueOf(v)
	switch v.(type) {
	case uint64, int64:
	case float64:
		if to.CanFloat() {
			to.Set(given)
			return nil
		}
		return unexpected(v, want)
	default:
		return unexpected(v, want)
	}
	set := given.Convert(to.Type())
	// The other way round it must be the same number, with the same sign.
	if !to.CanFloat() && (set.Convert(given.Type()).Interface() != v || (set.CanInt() && set.Int() < 0) != (given.CanInt() && given.Int() < 0)) {
		return fmt.Errorf("invalid value: integer `%d`, expected %s", v, want)
	}
	to.Set(set)
	return nil
}

// readEnumeration reads a word of a set. ABP also takes an object {"word": null}.
func readEnumeration(v any, to reflect.Value, known []string) error {
	s, ok := v.(string)
	if o, isMap := v.(Object); isMap && len(o) == 1 && o[0].Value == nil {
		s, ok = o[0].Key, true
	}
	if !ok {
		return unexpected(v, "string or map")
	}
	if !slices.Contains(known, s) {
		return unknown(s, known)
	}
	to.SetString(s)
	return nil
}

func unknown(s string, known []string) error {
	return fmt.Errorf("unknown variant %s, expected one of `%s`", quoteShort(s), strings.Join(known, "`, `"))
}

// unexpected says of which type a value is instead of the wanted one.
func unexpected(v any, want string) error {
	kind := "null"
	switch v := v.(type) {
	case bool:
		kind = "boolean"
	case uint64, int64:
		kind = "integer"
	case float64:
		kind = "floating point"
	case string:
		kind = "string " + quoteShort(v)
	case []any:
		kind = "sequence"
	case Object:
		kind = "map"
	case broken:
		return v.err
	}
	return fmt.Errorf("invalid type: %s, expected %s", kind, want)
}

// appendAny writes a variable of one of ABP's types.
func appendAny(to []byte, v reflect.Value, canonical bool) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(to, "null"...)
		}
		return appendAny(to, v.Elem(), canonical)
	case reflect.String:
		return AppendString(to, v.String())
	case reflect.Bool:
		return strconv.AppendBool(to, v.Bool())
	case reflect.Int32:
		return strconv.AppendInt(to, v.Int(), 10)
	case reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(to, v.Uint(), 10)
	case reflect.Float64:
		return appendFloat(to, v.Float())
	case reflect.Interface:
		return AppendValue(to, v.Interface())
	default:
	}
	switch c := v.Addr().Interface().(type) {
	case *Object:
		return AppendValue(to, *c)
	case *Time:
		return append(c.append(append(to, '"')), '"')
	case *Manifest:
		return c.append(to, canonical)
	case *Environment:
		return AppendValue(to, c.object())
	}
	if v.Kind() == reflect.Slice {
		to = append(to, '[')
		for i := range v.Len() {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendAny(to, v.Index(i), canonical)
		}
		return append(to, ']')
	}
	return append(appendFields(append(to, '{'), v, canonical), '}')
}

// appendFields writes the members of a struct into an object that is open.
func appendFields(to []byte, v reflect.Value, canonical bool) []byte {
	s := structureFor(v)
	if s == nil {
		return to
	}
	members := s.wire
	if canonical {
		members = s.sorted
	}
	for i := range members {
		f := v.Field(members[i].index)
		if members[i].need == needOmit && f.IsNil() {
			continue
		}
		if to[len(to)-1] != '{' {
			to = append(to, ',')
		}
		to = append(append(append(to, '"'), members[i].name...), '"', ':')
		to = appendAny(to, f, canonical)
	}
	return to
}
