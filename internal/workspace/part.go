package workspace

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// What a line tells may depend on lines far above: those of a private key say
// nothing of themselves. So what somebody asks for is masked with what stands
// around it, and cut out then.
const (
	linesBefore = 4096
	linesAfter  = 16
	maxAround   = 8 << 20
	maxKeyFile  = 4 << 20
)

// surroundings are a part of a file with what stands around it.
type surroundings struct {
	text  string
	skip  int // lines before the part
	lines int // of the part
	most  int // bytes of the part, if it ends within a line; else -1
	cr    bool
}

func (w *Workspace) readPart(ctx context.Context, path string, o files.ReadOptions) (files.Content, *surroundings, error) {
	read := func(o files.ReadOptions) (files.Content, error) { return files.Read(ctx, w.root, path, o) }
	if text, unsaved, err := w.live(ctx, path); err != nil {
		return files.Content{}, nil, err
	} else if unsaved {
		read = func(o files.ReadOptions) (files.Content, error) { return files.ReadText(ctx, path, text, o) }
	}
	c, err := read(o)
	if err != nil || c.Encoding == files.Base64 || c.Offset <= 1 && !c.Truncated || c.Lines == 0 {
		return c, nil, err
	}
	for before := min(linesBefore, c.Offset-1); ; before /= 8 {
		wide, err := read(files.ReadOptions{Offset: c.Offset - before, Limit: before + c.Lines + linesAfter, MaxBytes: len(c.Content) + maxAround, MaxHash: 1})
		if err != nil {
			return c, nil, err
		}
		a := &surroundings{text: wide.Content, skip: before, lines: c.Lines, most: -1}
		if c.LineEnding == files.CR {
			a.text, a.cr = strings.ReplaceAll(a.text, "\r", "\n"), true
		}
		if last := c.Content[len(c.Content)-1]; c.Truncated && last != '\n' && last != '\r' {
			a.most = len(c.Content)
		}
		if strings.HasPrefix(a.cut(a.text), c.Content) {
			return c, a, nil
		}
		if before == 0 {
			return c, nil, &bridge.Error{Code: bridge.CodeConflict, Message: c.Path + " changed while it was read", Remedy: "Read it again."}
		}
	}
}

// cut returns the part.
func (a *surroundings) cut(text string) string {
	for range a.skip {
		text = text[strings.IndexByte(text, '\n')+1:]
	}
	end := 0
	for range a.lines {
		n := strings.IndexByte(text[end:], '\n') + 1
		if n == 0 {
			end = len(text)
			break
		}
		end += n
	}
	text = text[:end]
	if a.most >= 0 && a.most < len(text) {
		text = text[:a.most]
		for text != "" && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) {
			text = text[:len(text)-1]
		}
	}
	if a.cr {
		text = strings.ReplaceAll(text, "\n", "\r")
	}
	return text
}

// keyFile are the lines of a file that holds a private key, masked; nil for
// any other.
type keyFile []string

func (w *Workspace) keyFile(view bridge.View, name string, live map[string]string) keyFile {
	text, ok := live[name]
	if !ok {
		f, err := w.root.Open(filepath.FromSlash(name))
		if err != nil {
			return nil
		}
		defer func() { _ = f.Close() }() // only read from
		data, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
		if err != nil {
			return nil
		}
		text = decoded(data)
	}
	if !strings.Contains(text, "PRIVATE KEY-----") && !strings.Contains(text, "Private-Lines:") {
		return nil
	}
	view.HideLines(&text)
	return strings.Split(text, "\n")
}

// decoded is a text as ripgrep reads it: UTF-16 where a byte order mark says
// so.
func decoded(data []byte) string {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte{0xFE, 0xFF}):
		order = binary.BigEndian
	case bytes.HasPrefix(data, []byte{0xFF, 0xFE}):
		order = binary.LittleEndian
	default:
		return string(data)
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return string(utf16.Decode(units))
}

// hide puts the masked line in the place of one of a key's.
func (k keyFile) hide(line int, text *string) {
	if line >= 1 && line <= len(k) && strings.Contains(k[line-1], "[REDACTED]") {
		*text = strings.TrimRight(k[line-1], "\r")
	}
}
