package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// maxNesting bounds how deep a body may nest. Real requests stay far below;
// the bound keeps types that decode themselves, each reading its own part
// again, from being made to read the same bytes thousands of times.
const maxNesting = 128

// growth is how much memory a body gets on its word alone; beyond that it
// must arrive.
const growth = 1 << 20

// Decode reads a JSON body of at most limit bytes into v. Unknown fields are
// ignored. What is wrong with the body is a *bridge.Error with CodeInvalid
// whose message names the JSON path and what was expected ("messages[2].content:
// expected a string or an array, got a number"), or, for a syntax error, the
// line and column; Path gives the path alone. Its Status is 413 if the body is
// too long, 415 if it says that it is not JSON, 408 if it did not arrive in
// time. A client that went away is CodeCanceled.
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
	switch KindOf(body) {
	case Object, Array, String, Number, Bool:
	case Invalid:
		if len(bytes.TrimSpace(body)) == 0 {
			return At("", "the body is empty: expected JSON")
		}
	case Null:
		if string(bytes.TrimSpace(body)) == "null" {
			return At("", "the body is null: expected a JSON value")
		}
	}
	if tooDeep(body, maxNesting) {
		return At("", "the body nests more than %d levels deep", maxNesting)
	}
	err := Unmarshal(body, v)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line, column := position(body, int(syntax.Offset)-1)
		return At("", "the body is not valid JSON: line %d, column %d: %s", line, column, syntax)
	}
	var p *Problem
	if !errors.As(err, &p) {
		// From a TextUnmarshaler or a foreign UnmarshalJSON.
		return At("", "the body cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	path := p.relative()
	if path == "" {
		return At("", "the body: %s", p.Reason)
	}
	return invalid(path, p.Reason)
}

// position gives the line and column, both from 1 and in characters, of the
// byte at index i.
func position(text []byte, i int) (line, column int) {
	before := text[:max(0, min(i, len(text)))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

func checkType(h http.Header) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupportedMedia(fmt.Sprintf("the body is encoded as %q", shorten(encoding, 32)), "Send it without compression.")
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(given)
	if err == nil && (kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return unsupportedMedia(fmt.Sprintf("the Content-Type is %q: expected application/json", shorten(given, 64)), "Send JSON with Content-Type: application/json.")
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
		// At shutdown the front ends requests with a cause of its own.
		return nil, bridge.AsError(context.Cause(r.Context()))
	default:
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the body ended before it was complete", Cause: err}
	}
}

// hangUp has the connection closed after the answer. Otherwise net/http would
// first wait for more of a body that nobody wants.
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
