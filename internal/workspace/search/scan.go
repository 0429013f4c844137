package search

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// sniffBytes is where a zero byte makes a file binary altogether. Of a file
// with one further on, what comes before it is searched.
const sniffBytes = 64 << 10

// scannedSize is the size of the largest file that is read into memory unless
// the caller names another.
const scannedSize = 64 << 20

// scan searches without ripgrep. It differs from it in three ways: regular
// expressions are Go's, in which \w, \d, \s and \b know ASCII only; bytes that
// are not UTF-8 match as replacement characters; and of a file with a late
// zero byte it may show more lines.
func scan(ctx context.Context, o Options, found *collection) error {
	m, err := newMatcher(o)
	if err != nil {
		return err
	}
	if o.MaxFileSize == 0 {
		o.MaxFileSize = scannedSize
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return noDirectory(o.Dir, err)
	}
	defer func() { _ = root.Close() }() // only read from
	buffers := sync.Pool{New: func() any { return new(scratch) }}
	var mu sync.Mutex // guards found
	// Two at least, so that one can wait for the disk.
	return files.Walk(ctx, root, o.Scope, max(2, runtime.GOMAXPROCS(0)), func(f files.File) error {
		if strings.ContainsAny(f.Path, lineBreaks) {
			return nil
		}
		s, ok := buffers.Get().(*scratch)
		if !ok {
			s = new(scratch)
		}
		defer buffers.Put(s)
		text := s.load(f, o.MaxFileSize)
		if len(text) == 0 {
			return nil
		}
		all := &gathered{}
		own := &collection{limit: o.MaxResults, context: o.Context, take: all.take}
		own.begin(f.Path)
		m.search(text, s, own)
		own.flush()
		if all.count == 0 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		found.merge(f.Path, all.sorted(), own.truncated)
		if found.done {
			return fs.SkipAll
		}
		return nil
	})
}

// scratch is the memory of one visit, kept for the next.
type scratch struct{ raw, folded []byte }

// load returns the text of a file, or nothing if it has none or cannot be
// read. The text is good until the next load.
func (s *scratch) load(f files.File, maxSize int64) []byte {
	file, info, err := f.Open()
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // only read from
	if info.Size() == 0 || info.Size() > maxSize {
		return nil
	}
	if int64(cap(s.raw)) < info.Size() {
		s.raw = make([]byte, info.Size()+info.Size()/4)
	}
	// Most binaries are told by their beginning.
	b := s.raw[:info.Size()]
	n, err := io.ReadFull(file, b[:min(len(b), sniffBytes)])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	marked := isUTF16(b[:n])
	if !marked && bytes.IndexByte(b[:n], 0) >= 0 {
		return nil
	}
	if n == sniffBytes && len(b) > n {
		more, err := io.ReadFull(file, b[n:])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return nil
		}
		n += more
	}
	b = b[:n]
	if marked {
		b = fromUTF16(b)
		if i := bytes.IndexByte(b[:min(len(b), sniffBytes)], 0); i >= 0 {
			return nil
		}
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:bytes.LastIndexByte(b[:i], '\n')+1]
	}
	return b
}

func isUTF16(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff"))
}

func fromUTF16(b []byte) []byte {
	order := binary.ByteOrder(binary.LittleEndian)
	if b[0] == 0xfe {
		order = binary.BigEndian
	}
	units := make([]uint16, 0, len(b)/2)
	for i := 2; i+1 < len(b); i += 2 {
		units = append(units, order.Uint16(b[i:]))
	}
	text := make([]byte, 0, len(b))
	for _, r := range utf16.Decode(units) {
		text = utf8.AppendRune(text, r)
	}
	return text
}

// search gives own the lines of text that match, and their context.
func (m *matcher) search(text []byte, s *scratch, own *collection) {
	view := m.view(text, s)
	l := lines{text: text, own: own}
	for at, number := 0, 1; at < len(text) && !own.done; {
		candidate := view.next(at)
		if candidate < 0 {
			break
		}
		start := at + bytes.LastIndexByte(text[at:candidate], '\n') + 1
		end := len(text)
		if i := bytes.IndexByte(text[candidate:], '\n'); i >= 0 {
			end = candidate + i
		}
		number += bytes.Count(text[at:start], []byte{'\n'})
		if offset := view.find(start, end); offset >= 0 {
			l.match(number, start, end, offset)
		}
		at, number = end+1, number+1
	}
	l.finish()
}

// lines hands a file's matches on, with the lines around them.
type lines struct {
	text []byte
	own  *collection
	last int // number of the last line handed on
	next int // where the line after it begins
	due  int // number of the last line that is context of the last match
}

func (l *lines) match(number, start, end, offset int) {
	if l.own.context > 0 {
		l.after(number)
		from, first := start, number
		for first > max(1, number-l.own.context) && first > l.last+1 {
			from = bytes.LastIndexByte(l.text[:from-1], '\n') + 1
			first--
		}
		l.next = from
		for l.last = first - 1; l.last < number-1; {
			l.surround()
		}
	}
	l.own.match(number, string(l.text[start:end]), offset)
	l.last, l.next, l.due = number, end+1, number+l.own.context
}

// after hands on what is still due after the last match, up to a line.
func (l *lines) after(before int) {
	for l.last > 0 && l.last < l.due && l.last+1 < before && l.next < len(l.text) && !l.own.done {
		l.surround()
	}
}

func (l *lines) surround() {
	end := len(l.text)
	if i := bytes.IndexByte(l.text[l.next:], '\n'); i >= 0 {
		end = l.next + i
	}
	l.last++
	l.own.surround(l.last, string(l.text[l.next:end]))
	l.next = end + 1
}

func (l *lines) finish() {
	if l.own.context > 0 {
		l.after(int(^uint(0) >> 1))
	}
}
