package files

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const (
	defaultMaxBytes = 1 << 20
	defaultMaxHash  = 256 << 20
	chunkBytes      = 128 << 10
)

// ReadOptions says which part of a file to return.
type ReadOptions struct {
	Offset   int   // first line, from 1; 0 means 1
	Limit    int   // most lines; 0 means all
	MaxBytes int   // most bytes of content, in UTF-8 or before base64; 0 means 1 MiB
	MaxHash  int64 // larger files are not read to their end; 0 means 256 MiB
}

// Encoding is how a file's bytes became Content.
type Encoding string

// The encodings. Text is always handed on as UTF-8; anything else is
// handed on as base64.
const (
	UTF8    Encoding = "utf-8"
	UTF16LE Encoding = "utf-16le"
	UTF16BE Encoding = "utf-16be"
	Base64  Encoding = "base64"
)

// LineEnding is how a file's lines end.
type LineEnding string

// The line endings. NoEnding is that of a file without any line break, and of
// one that is not text.
const (
	LF       LineEnding = "lf"
	CRLF     LineEnding = "crlf"
	CR       LineEnding = "cr"
	Mixed    LineEnding = "mixed"
	NoEnding LineEnding = "none"
)

// Content is a file, or some of its lines. Lines end at LF, as in search, or
// at CR in a file that has no LF at all.
type Content struct {
	Path       string     `json:"path"`
	Content    string     `json:"content" jsonschema:"the text, or base64 of what is no text"` // without the byte order mark, line endings as they are
	Encoding   Encoding   `json:"encoding" jsonschema:"how the file is written: utf-8, utf-16le, … or base64"`
	BOM        bool       `json:"bom"`
	LineEnding LineEnding `json:"lineEnding"` // of the whole file, if it was read to its end
	SHA256     string     `json:"sha256,omitempty"`
	Size       int64      `json:"size"`       // of the file, in bytes
	TotalLines int        `json:"totalLines"` // -1 if the file was not read to its end
	Offset     int        `json:"offset"`     // the first line that Content holds
	Lines      int        `json:"lines"`      // how many lines Content holds
	Truncated  bool       `json:"truncated"`  // there is more after Content
	// Unsaved means that this is the text in an editor, not the file on disk.
	Unsaved bool `json:"unsaved,omitempty"`
	// Redacted is how many secrets a guard has hidden: Content is then not what
	// the file holds, though SHA256 is the file's.
	Redacted int `json:"redacted,omitempty"`
}

// Read returns a text file, or a range of its lines, as UTF-8, and any other
// file as base64. The hash, the counts and the content come from one pass
// over the same bytes, which are never all in memory. If MaxBytes cuts the
// content it ends with a whole line, unless the first line alone is longer.
func Read(ctx context.Context, root *os.Root, name string, o ReadOptions) (Content, error) {
	clean, err := localPath(name)
	if err != nil {
		return Content{}, err
	}
	if o, err = o.complete(); err != nil {
		return Content{}, err
	}
	file, info, err := Open(root, clean)
	if err != nil {
		return Content{}, err
	}
	defer func() { _ = file.Close() }() // only read from

	// What a writer appends meanwhile is not looked at.
	return read(ctx, clean, info.Size(), io.NewSectionReader(file, 0, info.Size()), o)
}

// Open opens a regular file for reading. Anything else, such as a FIFO, is
// refused and never waited for.
func Open(root *os.Root, name string) (*os.File, os.FileInfo, error) {
	if err := wantRegular(root, name); err != nil {
		return nil, nil, err
	}
	file, info, err := openRegular(root, name)
	if errors.Is(err, ErrNotRegular) {
		return nil, nil, irregular(name, "no longer a regular file")
	}
	return file, info, fault("read", name, err)
}

// ReadAll returns a regular file, or its first limit bytes.
func ReadAll(root *os.Root, name string, limit int64) ([]byte, error) {
	f, _, err := Open(root, name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, fault("read", name, errors.Join(err, f.Close()))
}

// ErrNotRegular is the cause where a directory, a FIFO or the like is named in
// place of a file.
var ErrNotRegular = errors.New("not a regular file")

// ReadText is Read for a text that an editor holds in place of the file: the
// hash and the counts are those of the text.
func ReadText(ctx context.Context, name, text string, o ReadOptions) (Content, error) {
	clean, err := localPath(name)
	if err != nil {
		return Content{}, err
	}
	if o, err = o.complete(); err != nil {
		return Content{}, err
	}
	c, err := read(ctx, clean, int64(len(text)), strings.NewReader(text), o)
	c.Unsaved = err == nil
	return c, err
}

func read(ctx context.Context, name string, size int64, from io.ReadSeeker, o ReadOptions) (Content, error) {
	p := &pass{o: o, size: size, file: from}
	c, err := p.content(ctx, '\n')
	if err != nil {
		return Content{}, fault("read", name, err)
	}
	c.Path = name
	return c, nil
}

// complete checks the options and fills in the defaults.
func (o ReadOptions) complete() (ReadOptions, error) {
	if o.Offset < 0 || o.Limit < 0 || o.MaxBytes < 0 || o.MaxHash < 0 {
		return o, &bridge.Error{Code: bridge.CodeInvalid,
			Message: "offset, limit and the size limits cannot be negative", Remedy: "Lines are counted from 1; 0 means the default."}
	}
	o.Offset = max(o.Offset, 1)
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxHash == 0 {
		o.MaxHash = defaultMaxHash
	}
	return o, nil
}

// wantRegular looks before the open: to open some devices is to do something.
func wantRegular(root *os.Root, name string) error {
	info, err := root.Stat(name)
	if err != nil {
		return fault("read", name, err)
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return irregular(name, "a directory")
	case mode&os.ModeNamedPipe != 0:
		return irregular(name, "a FIFO")
	case mode&os.ModeSocket != 0:
		return irregular(name, "a socket")
	case mode&os.ModeDevice != 0:
		return irregular(name, "a device")
	default:
		return irregular(name, "no regular file")
	}
}

func irregular(name, what string) error {
	return &bridge.Error{
		Code:    bridge.CodeInvalid,
		Message: fmt.Sprintf("cannot read %s: it is %s", name, what),
		Remedy:  "Name a regular file; list the workspace's files to see which there are.", Cause: ErrNotRegular,
	}
}

// pass is one reading of a file.
type pass struct {
	o    ReadOptions
	size int64
	file io.ReadSeeker
}

func (p *pass) content(ctx context.Context, separator byte) (Content, error) {
	c := Content{Size: p.size, LineEnding: NoEnding, TotalLines: -1, Offset: p.o.Offset}
	hashed := p.size <= p.o.MaxHash
	var sum hash.Hash
	if hashed {
		sum = sha256.New()
	}
	text, raw, ended, err := p.lines(ctx, separator, sum)
	if err != nil {
		return Content{}, err
	}
	if ended && hashed {
		c.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	if text == nil {
		return p.binary(c, raw)
	}
	if separator == '\n' && text.ending() == CR {
		// Only now is it known where lines end.
		if _, err := p.file.Seek(0, io.SeekStart); err != nil {
			return Content{}, err
		}
		return p.content(ctx, '\r')
	}
	c.Encoding, c.BOM, c.LineEnding = text.encoding, text.bom, text.ending()
	c.Content, c.Lines = string(text.kept), text.keptLines
	if ended {
		c.TotalLines = text.total()
		c.Truncated = text.cut || p.o.Offset+c.Lines-1 < c.TotalLines
	} else {
		c.Truncated = true
	}
	return c, nil
}

func errChanged(cause error) error {
	return &bridge.Error{Code: bridge.CodeConflict, Message: "the file changed while it was read", Remedy: "Read it again.", Cause: cause}
}

// binary is the answer for a file that is not text: its beginning, as it is.
func (p *pass) binary(c Content, raw []byte) (Content, error) {
	if p.o.Offset > 1 || p.o.Limit > 0 {
		return Content{}, &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: "the file is not text, so it has no lines",
			Remedy:  "Read it without offset and limit; raise the size limit if it is cut.",
		}
	}
	c.Encoding, c.Offset, c.TotalLines = Base64, 0, 0
	c.Content = base64.StdEncoding.EncodeToString(raw)
	c.Truncated = int64(len(raw)) < p.size
	return c, nil
}

// lines reads the file once and keeps the lines asked for, which separator
// ends. There is no text if the file is none; raw is its beginning. With no
// hash to compute for a file that is too large it stops behind the range.
func (p *pass) lines(ctx context.Context, separator byte, sum hash.Hash) (t *decoder, raw []byte, ended bool, err error) {
	whole := p.size <= p.o.MaxHash
	chunk := make([]byte, chunkBytes)
	var got int64
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return nil, nil, false, err
		}
		n, err := io.ReadFull(p.file, chunk)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return nil, nil, false, err
		}
		got += int64(n)
		end = end || got == p.size
		part := chunk[:n]
		if sum != nil {
			_, _ = sum.Write(part) // never fails
		}
		if first {
			t = newDecoder(part, separator, p.o)
		}
		raw = append(raw, part[:min(n, p.o.MaxBytes-len(raw))]...)
		if t != nil && !t.add(part, end) {
			t = nil
		}
		switch {
		case end && got < p.size:
			return nil, nil, false, errChanged(io.ErrUnexpectedEOF)
		case end:
			return t, raw, true, nil
		case !whole && (t == nil && len(raw) == p.o.MaxBytes || t != nil && t.full()):
			return t, raw, false, nil
		}
	}
}
