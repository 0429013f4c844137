package workspace

import (
	"context"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// What a line tells may depend on lines far above: those of a private key say
// nothing of themselves. So a part of a file is masked together with the lines
// around it, and cut out afterwards.
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
		data, err := files.ReadAll(w.root, filepath.FromSlash(name), maxKeyFile)
		if err != nil {
			return nil
		}
		if text = string(data); files.HasUTF16Mark(text) { // ripgrep decodes it too
			text = files.DecodeUTF16(text)
		}
	}
	if !strings.Contains(text, "PRIVATE KEY-----") && !strings.Contains(text, "Private-Lines:") {
		return nil
	}
	view.HideLines(&text)
	return strings.Split(text, "\n")
}

// hide puts the masked line in the place of one of a key's.
func (k keyFile) hide(line int, text *string) {
	if line >= 1 && line <= len(k) && strings.Contains(k[line-1], "[REDACTED]") {
		*text = strings.TrimRight(k[line-1], "\r")
	}
}
