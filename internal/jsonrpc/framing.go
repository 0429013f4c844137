package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ErrTooLong is in the chain of the error for a message over the bound.
var ErrTooLong = errors.New("longer than a message may be")

// Lines is a Stream of one message a line.
type Lines struct {
	streams
	in       *bufio.Reader
	max      int
	buf      []byte
	skipping bool // the rest of a line that was too long
}

// NewLines returns a stream of lines of at most limit bytes. Close closes r and w.
func NewLines(r io.Reader, w io.Writer, limit int) *Lines {
	return &Lines{streams: streams{r, w}, in: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// Read returns the next line without its end. Of a line that is too long it returns
// the beginning and ErrTooLong; the next call skips the rest.
func (l *Lines) Read() ([]byte, error) {
	if cap(l.buf) > 1<<20 {
		l.buf = nil // a large message does not cost memory for ever
	}
	l.buf = l.buf[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if !l.skipping {
			l.buf = append(l.buf, part...)
		}
		switch {
		case len(l.buf) > l.max+1:
			l.skipping = err != nil
			return l.buf[:min(64, l.max)], fmt.Errorf("%w (%d bytes)", ErrTooLong, l.max)
		case err == nil && l.skipping:
			l.skipping = false
		case err == nil, errors.Is(err, io.EOF) && len(l.buf) > 0:
			return bytes.TrimRight(l.buf, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// Write writes a message and its end.
func (l *Lines) Write(message []byte) error {
	_, err := l.w.Write(append(message, '\n'))
	return err
}

// streams are the two ends that a framing works on.
type streams struct {
	r io.Reader
	w io.Writer
}

// Close closes both, the writer first: the other side then sees the end.
func (s streams) Close() {
	for _, end := range []any{s.w, s.r} {
		if c, ok := end.(io.Closer); ok {
			_ = c.Close() // nothing is written or read after it
		}
	}
}

const (
	maxHeader = 8 << 10  // one header line
	maxNoise  = 64 << 10 // output between two messages
)

// Headers is a Stream of messages behind a Content-Length, as in the Language Server
// Protocol. Servers sometimes print other lines: those are written to noise.
type Headers struct {
	streams
	in    *bufio.Reader
	max   int
	noise io.Writer
}

// NewHeaders returns a stream of messages of at most limit bytes. Close closes both.
func NewHeaders(r io.Reader, w, noise io.Writer, limit int) *Headers {
	return &Headers{streams: streams{r, w}, in: bufio.NewReaderSize(r, maxHeader), max: limit, noise: noise}
}

// Read returns the next message, or io.EOF between two messages.
func (f *Headers) Read() ([]byte, error) {
	length, noise := -1, 0
	for {
		line, err := f.in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) && (length >= 0 || len(line) > 0) {
				f.skip(line)
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch n, isLength := contentLength(line); {
		case isLength && n > f.max:
			return nil, fmt.Errorf("a message of %d bytes, over the limit of %d", n, f.max)
		case isLength:
			length = n
		case len(line) == 0 && length >= 0:
			return f.body(length)
		case length >= 0 && bytes.IndexByte(line, ':') > 0: // Content-Type
		default:
			length = -1
			f.skip(line)
			if noise += len(line) + 1; noise > maxNoise {
				return nil, errors.New("the output is not that of a JSON-RPC peer")
			}
		}
	}
}

func (f *Headers) skip(line []byte) {
	if len(line) > 0 {
		_, _ = fmt.Fprintf(f.noise, "%s\n", line) // it only remembers
	}
}

// body allocates memory as the message arrives.
func (f *Headers) body(length int) ([]byte, error) {
	var b bytes.Buffer
	n, err := io.CopyN(&b, f.in, int64(length))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("after %d of %d bytes of a message: %w", n, length, err)
	}
	return b.Bytes(), nil
}

// contentLength finds the header, also behind other output in the line.
func contentLength(line []byte) (int, bool) {
	const header = "content-length:"
	lower := bytes.ToLower(line)
	i := bytes.LastIndex(lower, []byte(header))
	if i < 0 {
		return 0, false
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(lower[i+len(header):])))
	return n, err == nil && n >= 0
}

// Write writes a message behind its header.
func (f *Headers) Write(message []byte) error {
	text := fmt.Appendf(make([]byte, 0, len(message)+32), "Content-Length: %d\r\n\r\n", len(message))
	_, err := f.w.Write(append(text, message...))
	return err
}
