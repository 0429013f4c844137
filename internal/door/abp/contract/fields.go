package contract

import (
	"fmt"
	"math"
	"strings"
)

// reader makes ABP's types of values. Lenient, it takes what is absent or null
// for empty wherever that has a meaning.
type reader struct{ lenient bool }

// field is one member of a structure and what to do with it.
type field struct {
	name string
	need need
	set  func(any) error
}

type need int

const (
	optional need = iota
	required      // unless the reader is lenient
	always
)

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

// structure spreads an object over fields. Members that nobody knows are
// dropped, known ones may come but once.
func (r reader) structure(v any, what string, fields ...field) error {
	o, ok := v.(Object)
	if !ok {
		if v == nil && r.lenient {
			o = Object{}
		} else {
			return unexpected(v, "struct "+what)
		}
	}
	var seen uint32
	for _, m := range o {
		for i := range fields {
			f := &fields[i]
			if f.name != m.Key {
				continue
			}
			if seen&(1<<i) != 0 {
				return fmt.Errorf("duplicate field `%s`", f.name)
			}
			seen |= 1 << i
			if m.Value == nil && r.lenient && f.need == required {
				break
			}
			if err := f.set(m.Value); err != nil {
				return in(f.name, err)
			}
			break
		}
	}
	for i := range fields {
		if n := fields[i].need; seen&(1<<i) == 0 && (n == always || n == required && !r.lenient) {
			return fmt.Errorf("missing field `%s`", fields[i].name)
		}
	}
	return nil
}

// unexpected says what a value is instead of what was wanted.
func unexpected(v any, want string) error {
	kind := "null"
	switch v := v.(type) {
	case bool:
		kind = fmt.Sprintf("boolean `%t`", v)
	case uint64, int64:
		kind = fmt.Sprintf("integer `%d`", v)
	case float64:
		kind = "floating point `" + string(appendFloat(nil, v)) + "`"
	case string:
		kind = "string " + string(AppendString(nil, strings.Trim(quoteShort(v), "`")))
	case []any:
		kind = "sequence"
	case Object:
		kind = "map"
	case broken:
		return v.err
	}
	return fmt.Errorf("invalid type: %s, expected %s", kind, want)
}

func text(to *string) func(any) error {
	return func(v any) error {
		s, ok := v.(string)
		if !ok {
			return unexpected(v, "a string")
		}
		*to = s
		return nil
	}
}

func flag(to *bool) func(any) error {
	return func(v any) error {
		b, ok := v.(bool)
		if !ok {
			return unexpected(v, "a boolean")
		}
		*to = b
		return nil
	}
}

// maybe reads what may be null.
func maybe[T any](to **T, read func(*T) func(any) error) func(any) error {
	return func(v any) error {
		*to = nil
		if v == nil {
			return nil
		}
		var t T
		if err := read(&t)(v); err != nil {
			return err
		}
		*to = &t
		return nil
	}
}

func natural(to *uint64) func(any) error {
	return func(v any) error {
		switch n := v.(type) {
		case uint64:
			*to = n
			return nil
		case int64:
			return fmt.Errorf("invalid value: integer `%d`, expected u64", n)
		}
		return unexpected(v, "u64")
	}
}

func small(to *uint32) func(any) error {
	return func(v any) error {
		switch n := v.(type) {
		case uint64:
			if n <= math.MaxUint32 {
				*to = uint32(n)
				return nil
			}
			return fmt.Errorf("invalid value: integer `%d`, expected u32", n)
		case int64:
			return fmt.Errorf("invalid value: integer `%d`, expected u32", n)
		}
		return unexpected(v, "u32")
	}
}

func signed(to *int32) func(any) error {
	return func(v any) error {
		switch n := v.(type) {
		case uint64:
			if n <= math.MaxInt32 {
				*to = int32(n)
				return nil
			}
			return fmt.Errorf("invalid value: integer `%d`, expected i32", n)
		case int64:
			if n >= math.MinInt32 {
				*to = int32(n)
				return nil
			}
			return fmt.Errorf("invalid value: integer `%d`, expected i32", n)
		}
		return unexpected(v, "i32")
	}
}

func float(to *float64) func(any) error {
	return func(v any) error {
		switch n := v.(type) {
		case float64:
			*to = n
		case uint64:
			*to = float64(n)
		case int64:
			*to = float64(n)
		default:
			return unexpected(v, "f64")
		}
		return nil
	}
}

func uuid(to *UUID) func(any) error {
	return func(v any) error {
		s, ok := v.(string)
		if !ok {
			return unexpected(v, "a UUID string")
		}
		id, err := ParseUUID(s)
		*to = id
		return err
	}
}

func moment(to *Time) func(any) error {
	return func(v any) error {
		s, ok := v.(string)
		if !ok {
			return unexpected(v, "an RFC 3339 formatted date and time string")
		}
		t, err := ParseTime(s)
		*to = t
		return err
	}
}

// anything reads a value of any kind.
func anything(to *any) func(any) error {
	return func(v any) error {
		*to = v
		return sound(v)
	}
}

// mapping reads an object whose values may be anything.
func mapping(to *Object) func(any) error {
	return func(v any) error {
		o, ok := v.(Object)
		if !ok {
			return unexpected(v, "a map")
		}
		*to = o
		return sound(v)
	}
}

// sound finds values that are none.
func sound(v any) error {
	switch v := v.(type) {
	case broken:
		return v.err
	case []any:
		for _, e := range v {
			if err := sound(e); err != nil {
				return err
			}
		}
	case Object:
		for _, m := range v {
			if err := sound(m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// variant reads one of a fixed set of words. ABP's reader also takes the word
// as the only key of an object that has null for it.
func variant[T ~string](to *T, known []T) func(any) error {
	return func(v any) error {
		s, ok := v.(string)
		if o, isMap := v.(Object); isMap && len(o) == 1 && o[0].Value == nil {
			s, ok = o[0].Key, true
		}
		if !ok {
			return unexpected(v, "string or map")
		}
		for _, k := range known {
			if string(k) == s {
				*to = k
				return nil
			}
		}
		return unknown(s, known)
	}
}

func unknown[T ~string](s string, known []T) error {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = "`" + string(k) + "`"
	}
	if len(names) == 2 {
		return fmt.Errorf("unknown variant %s, expected %s or %s", quoteShort(s), names[0], names[1])
	}
	return fmt.Errorf("unknown variant %s, expected one of %s", quoteShort(s), strings.Join(names, ", "))
}

// list reads a sequence.
func list[T any](to *[]T, read func(*T) func(any) error) func(any) error {
	return func(v any) error {
		all, ok := v.([]any)
		if !ok {
			return unexpected(v, "a sequence")
		}
		*to = make([]T, len(all))
		for i, e := range all {
			if err := read(&(*to)[i])(e); err != nil {
				return in(fmt.Sprintf("[%d]", i), err)
			}
		}
		return nil
	}
}

// The way back.

func orNull[T any](p *T) any {
	if p == nil {
		return nil
	}
	switch v := any(*p).(type) {
	case int32:
		return int64(v)
	case uint32:
		return uint64(v)
	default:
		return v
	}
}

func texts[T ~string](all []T) []any {
	out := make([]any, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return out
}
