package files

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// HasUTF16Mark reports whether a text begins with a byte order mark of UTF-16.
func HasUTF16Mark(s string) bool {
	return strings.HasPrefix(s, "\xff\xfe") || strings.HasPrefix(s, "\xfe\xff")
}

// DecodeUTF16 decodes a text that begins with such a mark. The mark is dropped.
func DecodeUTF16(s string) string {
	out, _, err := transform.String(unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM).NewDecoder(), s)
	if err != nil {
		return ""
	}
	return out
}

// decoder takes a file's bytes piece by piece, turns them into UTF-8, counts
// line endings and keeps the lines that are wanted.
type decoder struct {
	encoding  Encoding
	bom       bool
	separator byte
	first     int // the lines wanted: from first to last
	last      int // 0 means to the end
	maxBytes  int

	skip    int    // bytes of the byte order mark still to come
	pending []byte // the beginning of a character whose end has not come
	decoded []byte // scratch

	line      int // the line that the next byte belongs to, from 1
	begun     bool
	lf, cr    int // all of them
	crlf      int // those that are pairs
	afterCR   bool
	kept      []byte
	keptLines int
	whole     int // length of kept up to its last line break
	wholeLine int // keptLines up to there
	cut       bool
}

// newDecoder tells the encoding from the beginning of a file; nil if it is not
// text for sure.
func newDecoder(head []byte, separator byte, o ReadOptions) *decoder {
	t := &decoder{encoding: UTF8, separator: separator, first: o.Offset, maxBytes: o.MaxBytes, line: 1}
	if o.Limit > 0 {
		t.last = o.Offset + min(o.Limit, 1<<40) - 1
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		t.bom, t.skip = true, 3
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		t.encoding, t.bom, t.skip = UTF16LE, true, 2
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		t.encoding, t.bom, t.skip = UTF16BE, true, 2
	case bytes.IndexByte(head, 0) >= 0:
		encoding, ok := unmarked(head)
		if !ok {
			return nil
		}
		t.encoding = encoding
	}
	return t
}

// unmarked recognises UTF-16 without a byte order mark: text with a good deal
// of ASCII, whose zero bytes are all on one side.
func unmarked(head []byte) (Encoding, bool) {
	head = head[:min(len(head), 4096)&^1]
	if len(head) == 0 {
		return "", false
	}
	var zeros [2]int
	for i, b := range head {
		if b == 0 {
			zeros[i%2]++
			if other := head[i^1]; other < ' ' && bytes.IndexByte([]byte("\t\n\f\r"), other) < 0 {
				return "", false
			}
		}
	}
	units := len(head) / 2
	switch {
	case zeros[0] == 0 && zeros[1] >= (units+1)/2:
		return UTF16LE, true
	case zeros[1] == 0 && zeros[0] >= (units+1)/2:
		return UTF16BE, true
	}
	return "", false
}

// add takes the next bytes. It reports false once the file is not text.
func (t *decoder) add(part []byte, end bool) bool {
	n := min(t.skip, len(part))
	t.skip -= n
	part = part[n:]
	if t.encoding == UTF8 {
		return t.addUTF8(part, end)
	}
	return t.addUTF16(part, end)
}

func (t *decoder) addUTF8(part []byte, end bool) bool {
	if bytes.IndexByte(part, 0) >= 0 {
		return false
	}
	if len(t.pending) > 0 {
		// Complete the character that the last piece ended within.
		for len(part) > 0 && !utf8.FullRune(t.pending) {
			t.pending, part = append(t.pending, part[0]), part[1:]
		}
		if utf8.FullRune(t.pending) || end {
			if !utf8.Valid(t.pending) {
				return false
			}
			t.take(t.pending)
			t.pending = t.pending[:0]
		}
	}
	tail := 0
	if !end {
		tail = text.Incomplete(part)
	}
	whole := part[:len(part)-tail]
	if !utf8.Valid(whole) {
		return false
	}
	t.take(whole)
	t.pending = append(t.pending, part[len(whole):]...)
	return true
}

func (t *decoder) addUTF16(part []byte, end bool) bool {
	data := slices.Concat(t.pending, part)
	order := binary.ByteOrder(binary.LittleEndian)
	if t.encoding == UTF16BE {
		order = binary.BigEndian
	}
	t.decoded = t.decoded[:0]
	i := 0
	for i+1 < len(data) {
		r := rune(order.Uint16(data[i:]))
		width := 2
		if utf16.IsSurrogate(r) {
			if i+3 >= len(data) {
				break
			}
			if r = utf16.DecodeRune(r, rune(order.Uint16(data[i+2:]))); r == utf8.RuneError {
				return false
			}
			width = 4
		}
		if r == 0 {
			return false
		}
		t.decoded = utf8.AppendRune(t.decoded, r)
		i += width
	}
	t.take(t.decoded)
	t.pending = append([]byte(nil), data[i:]...)
	return !end || len(t.pending) == 0
}

// take counts and keeps valid UTF-8.
func (t *decoder) take(b []byte) {
	t.countEndings(b)
	for len(b) > 0 {
		line, ends := b, false
		if i := bytes.IndexByte(b, t.separator); i >= 0 {
			line, ends = b[:i+1], true
		}
		b = b[len(line):]
		t.keep(line, ends)
		t.begun = !ends
		if ends {
			t.line++
		}
	}
}

func (t *decoder) keep(part []byte, ends bool) {
	if t.line < t.first || t.last > 0 && t.line > t.last || t.cut {
		return
	}
	if !t.begun {
		t.keptLines++
	}
	if room := t.maxBytes - len(t.kept); len(part) > room {
		t.cut = true
		if t.whole > 0 {
			t.kept, t.keptLines = t.kept[:t.whole], t.wholeLine
			return
		}
		for room > 0 && !utf8.RuneStart(part[room]) {
			room--
		}
		t.kept = append(t.kept, part[:room]...)
		return
	}
	t.kept = append(t.kept, part...)
	if ends {
		t.whole, t.wholeLine = len(t.kept), t.keptLines
	}
}

func (t *decoder) countEndings(b []byte) {
	if len(b) == 0 {
		return
	}
	t.lf += bytes.Count(b, []byte("\n"))
	t.cr += bytes.Count(b, []byte("\r"))
	t.crlf += bytes.Count(b, []byte("\r\n"))
	if t.afterCR && b[0] == '\n' {
		t.crlf++
	}
	t.afterCR = b[len(b)-1] == '\r'
}

func (t *decoder) ending() LineEnding {
	switch lf, cr := t.lf-t.crlf, t.cr-t.crlf; {
	case lf+t.crlf+cr == 0:
		return NoEnding
	case t.crlf+cr == 0:
		return LF
	case lf+cr == 0:
		return CRLF
	case lf+t.crlf == 0:
		return CR
	default:
		return Mixed
	}
}

// total is the number of lines so far.
func (t *decoder) total() int {
	if t.begun {
		return t.line
	}
	return t.line - 1
}

// full reports whether nothing more will be kept.
func (t *decoder) full() bool { return t.cut || t.last > 0 && t.line > t.last }
