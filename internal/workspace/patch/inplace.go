package patch

import (
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// applyInPlace applies hunks that fit to the byte at the very lines that they
// name, as most do, without taking the file apart. Of all others it knows
// nothing: ok is false, and applyHunks looks closer. What it makes is what
// applyHunks would.
func applyInPlace(data string, hunks []*gitdiff.TextFragment) (made string, ok bool) {
	size, shift := len(data), int64(0)
	for _, h := range hunks {
		// Line numbers of the new side say where the hunks before have put it.
		if len(hunks) > 1 && h.NewPosition-h.OldPosition != shift {
			return "", false
		}
		shift += h.LinesAdded - h.LinesDeleted
		for i := range h.Lines {
			if l := &h.Lines[i]; l.Op == gitdiff.OpAdd {
				size += len(l.Line)
			}
		}
	}
	var out strings.Builder
	out.Grow(size)
	copied, at, line := 0, 0, int64(0) // at is where the line begins
	for _, h := range hunks {
		first := max(h.NewPosition-1, 0)
		if len(hunks) > 1 {
			first = max(h.OldPosition-1, 0)
		}
		if first < line || h.OldPosition <= 1 && first != 0 {
			return "", false
		}
		for ; line < first; line++ {
			i := strings.IndexByte(data[at:], '\n')
			if i < 0 {
				return "", false
			}
			at += i + 1
		}
		out.WriteString(data[copied:at])
		for i := range h.Lines {
			l := &h.Lines[i]
			if l.Op != gitdiff.OpAdd {
				if l.Line == "" || !strings.HasPrefix(data[at:], l.Line) || !strings.HasSuffix(l.Line, "\n") && at+len(l.Line) < len(data) {
					return "", false
				}
				at += len(l.Line)
				line++
			}
			if l.Op != gitdiff.OpDelete {
				out.WriteString(l.Line)
			}
		}
		// Without context behind its changes a hunk reaches the end.
		if h.TrailingContext == 0 && at < len(data) {
			return "", false
		}
		copied = at
	}
	out.WriteString(data[copied:])
	return out.String(), true
}
