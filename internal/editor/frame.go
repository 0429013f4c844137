package editor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a message.
const maxLine = 64 << 20

// frame is any message. Which fields are set says what it is.
type frame struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Fault          `json:"error,omitempty"`
}

var (
	errTooLong = fmt.Errorf("a line is longer than it may be (%d MiB)", maxLine>>20)
	errNotJSON = errors.New("a line is not a JSON object")
	errNotRPC  = errors.New("a line is JSON, but not a JSON-RPC 2.0 message")
)

// decode reads a line. Ids are numbers or texts.
func decode(line []byte) (*frame, error) {
	f := &frame{}
	if err := json.Unmarshal(line, f); err != nil || bytes.TrimLeft(line, " \t")[0] != '{' {
		var fields *json.UnmarshalTypeError
		if errors.As(err, &fields) {
			return nil, errNotRPC
		}
		return nil, errNotJSON
	}
	if bytes.Equal(f.ID, null) {
		f.ID = nil
	}
	switch id := f.ID; {
	case f.Version != "2.0",
		f.Method == "" && len(id) == 0,
		f.Method != "" && (f.Result != nil || f.Error != nil),
		len(id) > 0 && id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9'):
		return nil, errNotRPC
	}
	return f, nil
}

var null = []byte("null")

// lines reads lines of a bounded length.
type lines struct {
	r    *bufio.Reader
	most int
	buf  []byte
}

func newLines(r io.Reader, most int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), most: most}
}

// next returns the next line without its end; it is valid until the next call.
// The stream may end after a line's end only: what comes after the last one
// was cut short.
func (l *lines) next() ([]byte, error) {
	if cap(l.buf) > 1<<20 {
		l.buf = nil // a large message should not be paid for by all later ones
	}
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.buf)+len(part) > l.most+1 {
			return nil, errTooLong
		}
		l.buf = append(l.buf, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(l.buf, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.buf) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
