package language

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	maxMessage = 64 << 20 // one message of a server
	maxLine    = 8 << 10  // one header line
	maxNoise   = 64 << 10 // what a server may print between two messages
)

// frameReader splits a server's output into messages. Servers and their
// wrappers sometimes print to it by mistake; lines that are no headers are
// passed over, and kept by noise for error messages.
type frameReader struct {
	r     *bufio.Reader
	max   int
	noise io.Writer
}

func newFrameReader(r io.Reader, noise io.Writer) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, maxLine), max: maxMessage, noise: noise}
}

// next returns the next message's content. io.EOF means that the output ended
// between two messages.
func (f *frameReader) next() ([]byte, error) {
	length, noise := -1, 0
	for {
		line, err := f.r.ReadSlice('\n')
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
				return nil, errors.New("its output is no language server's")
			}
		}
	}
}

func (f *frameReader) skip(line []byte) {
	if len(line) > 0 {
		_, _ = fmt.Fprintf(f.noise, "%s\n", line) // it only remembers
	}
}

// body reads in steps, so that a header alone does not make us set aside
// what it promises.
func (f *frameReader) body(length int) ([]byte, error) {
	var b bytes.Buffer
	n, err := io.CopyN(&b, f.r, int64(length))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("after %d of %d bytes of a message: %w", n, length, err)
	}
	return b.Bytes(), nil
}

// contentLength finds the header also behind something printed without a
// line's end.
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

func writeFrame(w io.Writer, content []byte) error {
	frame := make([]byte, 0, len(content)+32)
	frame = append(frame, "Content-Length: "...)
	frame = strconv.AppendInt(frame, int64(len(content)), 10)
	frame = append(frame, "\r\n\r\n"...)
	_, err := w.Write(append(frame, content...))
	return err
}
