package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
)

// maxLine bounds the lines that are read as entries. Ours are far shorter.
const maxLine = 8 << 20

// lineReader reads the lines of a file that may be growing.
type lineReader struct {
	f    *os.File
	r    *bufio.Reader
	part []byte // the beginning of a line whose end has not been read yet
	at   int64  // how much of the file has been read
}

func openLines(path string) (*lineReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &lineReader{f: f, r: bufio.NewReaderSize(f, 128<<10)}, nil
}

func (l *lineReader) close() error { return l.f.Close() }

// next returns the next line without its end, or at the end of the file what
// there is of one, which it returns again, longer, when there is more. The
// bytes are good until the next call. Of a line that is too long to be an
// entry only the beginning is kept.
func (l *lineReader) next() (data []byte, complete bool, err error) {
	for {
		piece, err := l.r.ReadSlice('\n')
		l.at += int64(len(piece))
		switch {
		case err == nil:
			piece = piece[:len(piece)-1]
			if len(l.part) == 0 {
				return piece, true, nil
			}
			data = l.keep(piece)
			l.part = nil
			return data, true, nil
		case errors.Is(err, io.EOF):
			return l.keep(piece), false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
		l.keep(piece)
	}
}

func (l *lineReader) keep(piece []byte) []byte {
	l.part = append(l.part, piece[:min(len(piece), max(0, maxLine-len(l.part)))]...)
	return l.part
}

// line is a line of a file; end is where the next one begins. The last line
// of a file is open if it has no line end. data is nil if it is too long to
// be an entry.
type line struct {
	data []byte
	end  int64
	open bool
}

// linesOf yields the lines of a log's files from the last to the first, or why
// a file could not be read.
func linesOf(dir string, names []string) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		for _, name := range slices.Backward(names) {
			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				if !yield(line{}, err) {
					return
				}
				continue
			}
			more := true
			info, err := f.Stat()
			if err != nil {
				more = yield(line{}, err)
			} else {
				for l, err := range linesBackward(f, info.Size()) {
					if more = yield(l, err); !more {
						break
					}
				}
			}
			_ = f.Close() // only read from
			if !more {
				return
			}
		}
	}
}

// linesBackward yields the lines of a file from the last to the first.
func linesBackward(f io.ReaderAt, size int64) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		const chunk = 64 << 10
		var buf []byte // read, but not yielded
		at, stop := size, size
		open, long := true, false // open until the first line end, which may be the last byte
		give := func(data []byte) bool {
			if long {
				data = nil
			}
			wanted := len(data) > 0 || long || !open
			long = false
			return !wanted || yield(line{data: data, end: stop, open: open}, nil)
		}
		for at > 0 {
			n := min(chunk, at)
			at -= n
			piece := make([]byte, n, int(n)+len(buf))
			if _, err := f.ReadAt(piece, at); err != nil && !errors.Is(err, io.EOF) {
				yield(line{}, err)
				return
			}
			buf = append(piece, buf...)
			for i := bytes.LastIndexByte(buf, '\n'); i >= 0; i = bytes.LastIndexByte(buf, '\n') {
				data := buf[i+1:]
				buf = buf[:i]
				if !give(data) {
					return
				}
				open = false
				stop = at + int64(i) + 1
			}
			if len(buf) > maxLine {
				buf, long = nil, true
			}
		}
		if len(buf) > 0 || long || !open {
			give(buf)
		}
	}
}
