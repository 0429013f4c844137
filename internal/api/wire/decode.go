package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// maxNesting bounds how deep a body may nest.
const maxNesting = 128

// growth is how much memory a body gets before it arrives.
const growth = 1 << 20

// Decode reads a JSON body of at most limit bytes into v. Unknown fields are
// ignored. A bad body is a *bridge.Error with CodeInvalid. Its message names the
// JSON path and the expected kind ("messages[2].content: expected a string or an
// array, got a number"), or the line and column of a syntax error. Its Status is
// 413 for a long body, 415 for one that is not JSON, 408 for one that is late. A
// client that went away is CodeCanceled.
func Decode(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	if err := checkType(r.Header); err != nil {
		return err
	}
	body, err := read(w, r, limit)
	if err != nil {
		return err
	}
	return decode(body, v)
}

func decode(body []byte, v any) error {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	switch trimmed := bytes.TrimSpace(body); {
	case len(trimmed) == 0:
		return At("", "the body is empty: expected JSON")
	case string(trimmed) == "null":
		return At("", "the body is null: expected a JSON value")
	case tooDeep(body):
		return At("", "the body nests more than %d levels deep", maxNesting)
	}
	err := Unmarshal(body, v)
	if err == nil {
		return nil
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		line, column := position(body, int(syntax.ByteOffset))
		return At("", "the body is not valid JSON: line %d, column %d: %s", line, column, syntaxError(syntax))
	}
	var p *problem
	if errors.As(err, &p) && p.path != "" {
		return Within("", p)
	}
	return At("", "the body: %s", err)
}

// tooDeep reports whether arrays and objects nest deeper than maxNesting.
func tooDeep(body []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// position is the line and column, in characters from 1, of the byte at i.
func position(body []byte, i int) (line, column int) {
	before := body[:max(0, min(i, len(body)))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

func checkType(h http.Header) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupportedMedia(fmt.Sprintf("the body is encoded as %q", text.Clip(encoding, 32)), "Send it without compression.")
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(given)
	if err == nil && (kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return unsupportedMedia(fmt.Sprintf("the Content-Type is %q: expected application/json", text.Clip(given, 64)), "Send JSON with Content-Type: application/json.")
}

func unsupportedMedia(message, remedy string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Status: http.StatusUnsupportedMediaType, Message: message, Remedy: remedy}
}

func read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		hangUp(w)
		return nil, tooLarge(limit)
	}
	var buf bytes.Buffer
	// One more than the length, so that the end is seen without growing.
	buf.Grow(int(min(max(r.ContentLength, 0), growth)) + bytes.MinRead)
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		return buf.Bytes(), nil
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		hangUp(w)
		return nil, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		hangUp(w)
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Status: http.StatusRequestTimeout, Message: "the body did not arrive in time"}
	case r.Context().Err() != nil:
		// At shutdown the server gives the cause.
		return nil, bridge.AsError(context.Cause(r.Context()))
	default:
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the body ended before it was complete", Cause: err}
	}
}

// hangUp closes the connection after the answer, without reading the body.
func hangUp(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

func tooLarge(limit int64) error {
	size := fmt.Sprintf("%d bytes", limit)
	if limit >= 1<<20 && limit%(1<<20) == 0 {
		size = fmt.Sprintf("%d MiB", limit>>20)
	}
	return &bridge.Error{
		Code: bridge.CodeInvalid, Status: http.StatusRequestEntityTooLarge,
		Message: "the body is larger than " + size,
		Remedy:  "Send a shorter conversation, or fewer and smaller attachments.",
	}
}

// Kind is the kind of a JSON value.
type Kind int

// The kinds. Invalid is no JSON value.
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
	return kindOf(jsontext.Kind(data[0]))
}

func kindOf(first jsontext.Kind) Kind {
	switch first {
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	case '"':
		return String
	case '[':
		return Array
	case '{':
		return Object
	default:
		return Invalid
	}
}

func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// lenient has the decoder accept what encoding/json accepts.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// problem is a mistake in a JSON value, with its path from that value.
type problem struct {
	path   string
	reason string
}

func (p *problem) Error() string { return prefixed(p.path, p.reason) }

// Unmarshal decodes JSON. Within turns its errors into errors for the client.
func Unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v, lenient)
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return err
	}
	path := pathOf(semantic.JSONPointer)
	var p *problem
	if errors.As(semantic.Err, &p) {
		return &problem{join(path, p.path), p.reason}
	}
	return &problem{path, mismatch(semantic)}
}

// Expected is an UnmarshalJSON method's error for data of another kind; what is
// "a string or an array".
func Expected(data []byte, what string) error {
	return &problem{reason: "expected " + what + ", got " + KindOf(data).String()}
}

// Forms are the targets of a value that an API takes in several forms.
type Forms struct{ String, Array, Object any }

// Decode reads the next value into the target of its kind, for methods
// UnmarshalJSONFrom. Null is nothing.
func (f Forms) Decode(dec *jsontext.Decoder) error {
	var target any
	kind := kindOf(dec.PeekKind())
	switch kind {
	case Null:
		return dec.SkipValue()
	case String:
		target = f.String
	case Array:
		target = f.Array
	case Object:
		target = f.Object
	case Bool, Number:
	case Invalid:
		_, err := dec.ReadToken() // which says what is wrong
		return err
	}
	if target != nil {
		return json.UnmarshalDecode(dec, target)
	}
	var forms []string
	for i, form := range []any{f.String, f.Array, f.Object} {
		if form != nil {
			forms = append(forms, (String + Kind(i)).String())
		}
	}
	return &problem{reason: "expected " + strings.Join(forms, " or ") + ", got " + kind.String()}
}

// At is the error of an API's own check. An empty path means the body.
func At(path, format string, args ...any) *bridge.Error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: prefixed(path, fmt.Sprintf(format, args...)), Cause: &place{path}}
}

// Within is the error of Unmarshal for a value at path in the body.
func Within(path string, err error) *bridge.Error {
	var already *bridge.Error
	if errors.As(err, &already) {
		return already
	}
	var p *problem
	if errors.As(err, &p) {
		return At(join(path, p.path), "%s", p.reason)
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		err = syntaxError(syntax)
	}
	return At(path, "is not valid JSON: %s", err)
}

// syntaxError is a syntax error without its place.
func syntaxError(e *jsontext.SyntacticError) error {
	if errors.Is(e.Err, io.ErrUnexpectedEOF) {
		return errors.New("unexpected end of JSON input")
	}
	return e.Err
}

// Path returns the JSON path that an error of this package names, or "".
func Path(err error) string {
	var at *place
	if errors.As(err, &at) {
		return at.path
	}
	return ""
}

// place is the cause of an invalid-body error, with the path.
type place struct{ path string }

func (*place) Error() string { return "invalid request" }

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

// pathOf writes a JSON pointer as programmers do: messages[2].content.
func pathOf(pointer jsontext.Pointer) string {
	path := ""
	for name := range pointer.Tokens() {
		switch index, err := strconv.ParseUint(name, 10, 31); {
		case err == nil:
			path += fmt.Sprintf("[%d]", index)
		case !plainName.MatchString(name):
			path += "[" + strconv.Quote(text.Clip(name, 64)) + "]"
		default:
			path = join(path, text.Clip(name, 64))
		}
	}
	return path
}

// plainName is a name that needs no quotes in a path.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_$-]+$`)

// mismatch says in the words of JSON what the decoder says in Go's.
func mismatch(e *json.SemanticError) string {
	got := kindOf(e.JSONKind).String()
	if kindOf(e.JSONKind) == Number && len(e.JSONValue) > 0 {
		got = text.Clip(string(e.JSONValue), 32)
	}
	return "expected " + words(e.GoType) + ", got " + got
}

func words(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	switch kind := t.Kind(); kind {
	case reflect.Pointer:
		return words(t.Elem())
	case reflect.Bool:
		return Bool.String()
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
		switch {
		case reflect.Int <= kind && kind <= reflect.Int64:
			return "an integer"
		case reflect.Uint <= kind && kind <= reflect.Uintptr:
			return "a non-negative integer"
		}
		return "another value"
	}
}

// AppendString appends s as a JSON string like encoding/json without HTML escapes.
func AppendString(to []byte, s string) []byte {
	quoted, err := jsontext.AppendQuote(to, s)
	// encoding/json escapes invalid UTF-8 and line separators.
	if err != nil || strings.Contains(s, "\u2028") || strings.Contains(s, "\u2029") {
		return append(to, Encode(s)...)
	}
	return quoted
}
