package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Kind is the kind of a JSON value.
type Kind int

// The kinds. Invalid is what starts like none of them, such as no bytes at
// all.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// KindOf tells the kind of a JSON value by its first byte.
func KindOf(data []byte) Kind {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 {
		return Invalid
	}
	switch c := data[0]; {
	case c == 'n':
		return Null
	case c == 't' || c == 'f':
		return Bool
	case c == '-' || '0' <= c && c <= '9':
		return Number
	case c == '"':
		return String
	case c == '[':
		return Array
	case c == '{':
		return Object
	default:
		return Invalid
	}
}

func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Bool:
		return "a boolean"
	case Number:
		return "a number"
	case String:
		return "a string"
	case Array:
		return "an array"
	case Object:
		return "an object"
	case Invalid:
		return "nothing"
	default:
		return "an unknown kind"
	}
}

// Problem is a mistake in a JSON value whose place in the whole body is not
// known yet: what UnmarshalJSON methods return. Decode and Within turn it into
// a *bridge.Error.
type Problem struct {
	Path   string // below the value at offset
	Reason string
	// data holds the value, which begins before offset. The bytes are the
	// caller's own: their address is how the caller finds the place again.
	data   []byte
	offset int
}

func (p *Problem) Error() string { return prefixed(p.relative(), p.Reason) }

// relative is the path from data's own value.
func (p *Problem) relative() string {
	return join(pathAt(p.data, p.offset), p.Path)
}

// Expected reports that data, as given to UnmarshalJSON, is of a kind that the
// API does not allow there; what is "a string or an array".
func Expected(data []byte, what string) *Problem {
	return &Problem{Reason: "expected " + what + ", got " + KindOf(data).String(), data: data, offset: 1}
}

// Wrong reports anything else about data, as given to UnmarshalJSON. The path
// leads from there to the value at fault, "" for the whole.
func Wrong(data []byte, path, format string, args ...any) *Problem {
	return &Problem{Path: path, Reason: fmt.Sprintf(format, args...), data: data, offset: 1}
}

// Unmarshal is json.Unmarshal with errors that know their place: a *Problem
// for a value of the wrong kind. It is meant for UnmarshalJSON methods.
func Unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var p *Problem
	if errors.As(err, &p) { // of an UnmarshalJSON below
		if start, ok := startWithin(data, p.data); ok {
			return &Problem{Path: p.Path, Reason: p.Reason, data: data, offset: start + p.offset}
		}
		return p
	}
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	at := int(kind.Offset)
	if !sameNames(pathAt(data, at), kind.Field) {
		// An UnmarshalJSON somewhere below used json.Unmarshal: the offset
		// is not ours. The names of the fields are still right.
		return &Problem{Path: kind.Field, Reason: mismatch(kind), data: data, offset: 1}
	}
	return &Problem{Reason: mismatch(kind), data: data, offset: at}
}

// startWithin finds where part begins in whole if it is a slice of it, as
// what encoding/json gives to UnmarshalJSON is: slices of one array end their
// capacity at the same place.
func startWithin(whole, part []byte) (int, bool) {
	start := cap(whole) - cap(part)
	if len(part) == 0 || start < 0 || start >= len(whole) || &whole[start] != &part[0] {
		return 0, false
	}
	return start, true
}

// At makes the error for a check that a door does itself. An empty path means
// the body as a whole.
func At(path, format string, args ...any) *bridge.Error {
	return invalid(path, fmt.Sprintf(format, args...))
}

// Within makes the error for a value that was decoded on its own, with
// Unmarshal, and stands at path in the body.
func Within(path string, err error) *bridge.Error {
	var already *bridge.Error
	if errors.As(err, &already) {
		return already
	}
	var p *Problem
	if errors.As(err, &p) {
		return invalid(join(path, p.relative()), p.Reason)
	}
	return invalid(path, "is not valid JSON: "+strings.TrimPrefix(err.Error(), "json: "))
}

// Path returns the JSON path that an error of this package names, or "".
func Path(err error) string {
	var at *place
	if errors.As(err, &at) {
		return at.path
	}
	return ""
}

// place is the cause of an invalid-body error; it carries the path for APIs
// that have a field for it.
type place struct{ path string }

func (*place) Error() string { return "invalid request" }

func invalid(path, reason string) *bridge.Error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: prefixed(path, reason), Cause: &place{path}}
}

func prefixed(path, reason string) string {
	if path == "" {
		return reason
	}
	return path + ": " + reason
}

func join(path, below string) string {
	if path == "" || below == "" || below[0] == '[' {
		return path + below
	}
	return path + "." + below
}

// sameNames reports whether path names the fields that encoding/json says it
// was in; it leaves out indexes, and the keys of maps.
func sameNames(path, field string) bool {
	if field == "" {
		return true
	}
	for name := range strings.SplitSeq(field, ".") {
		i := strings.Index(strings.ToLower(path), strings.ToLower(name))
		if i < 0 {
			return false
		}
		path = path[i+len(name):]
	}
	return true
}

// mismatch says in the words of JSON what encoding/json says in Go's.
func mismatch(e *json.UnmarshalTypeError) string {
	got := e.Value
	switch name, literal, _ := strings.Cut(e.Value, " "); name {
	case "number":
		got = Number.String()
		if literal != "" {
			got = shorten(literal, 32)
		}
	case "bool":
		got = Bool.String()
	case "string":
		got = String.String()
	case "array":
		got = Array.String()
	case "object":
		got = Object.String()
	}
	return "expected " + words(e.Type) + ", got " + got
}

func words(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return words(t.Elem())
	case reflect.Bool:
		return Bool.String()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "a non-negative integer"
	case reflect.Float32, reflect.Float64:
		return Number.String()
	case reflect.String:
		return String.String()
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a base64 string"
		}
		return Array.String()
	case reflect.Map, reflect.Struct:
		return Object.String()
	default:
		return "another value"
	}
}

// shorten cuts text that the client chose to at most n bytes.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
