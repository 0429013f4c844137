package acpwire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// frame is any message. Which fields are set says what it is.
type frame struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

type frameKind int

const (
	frameBad frameKind = iota
	frameRequest
	frameNotification
	frameResponse
)

// kind sorts a frame. A request's id may be null by the schema, but then it
// cannot be told from a notification, which is what it is taken for.
func (f *frame) kind() frameKind {
	hasID := len(f.ID) > 0 && !bytes.Equal(f.ID, []byte("null"))
	switch {
	case f.Method != "" && hasID:
		return frameRequest
	case f.Method != "":
		return frameNotification
	case f.Error != nil || hasID:
		return frameResponse
	}
	return frameBad
}

var (
	errNotJSON  = errors.New("not JSON")
	errNotRPC   = errors.New("JSON, but not a JSON-RPC 2.0 message")
	errTooLong  = errors.New("longer than a line may be")
	errBadID    = errors.New("the id is neither a number nor a text")
	nullID      = json.RawMessage("null")
	emptyResult = json.RawMessage("{}")
)

// decodeFrame reads a line. The frame is not nil for lines that are JSON, so
// that an answer can carry their id.
func decodeFrame(line []byte) (*frame, error) {
	if !json.Valid(line) {
		return nil, errNotJSON
	}
	f := &frame{}
	if err := json.Unmarshal(line, f); err != nil || f.Version != "2.0" || f.kind() == frameBad {
		if err == nil && f.Version == "" && f.kind() != frameBad {
			return f, nil // some agents leave the version out
		}
		return f, errNotRPC
	}
	if len(f.ID) > 0 && f.ID[0] != '"' && f.ID[0] != '-' && (f.ID[0] < '0' || f.ID[0] > '9') && !bytes.Equal(f.ID, nullID) {
		f.ID = nil
		return f, errBadID
	}
	return f, nil
}

// lines reads lines of a bounded length. One that is longer is skipped and
// reported by errTooLong with its beginning, so that the stream goes on.
type lines struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func newLines(r io.Reader, most int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), max: most}
}

// next returns the next line without its end; it is valid until the next
// call. The last line need not have an end.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if !long && len(l.buf)+len(part) > l.max+1 {
			long = true
			l.buf = append(l.buf, part[:min(len(part), 64)]...)
			l.buf = l.buf[:min(len(l.buf), 64)]
		}
		if !long {
			l.buf = append(l.buf, part...)
		}
		switch {
		case err == nil && long:
			return l.buf, errTooLong
		case err == nil:
			return bytes.TrimRight(l.buf, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(l.buf) > 0 && errors.Is(err, io.EOF) && !long:
			return bytes.TrimRight(l.buf, "\r\n"), nil
		default:
			return nil, err
		}
	}
}
