package toolbus

import (
	"strconv"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// maxFound is how many bytes of hits one answer may have, and maxFoundAll those
// that are not sent yet together. A client that asks for more hits gets as many
// as fit, and "truncated".
const (
	maxFound    = 256 << 20
	maxFoundAll = 512 << 20
)

// found is the result of a search as JSON: byte for byte what encode would
// make of it. Hits are encoded as they are found, while ripgrep still works,
// and only put in order when all are there. There may be hundreds of
// thousands, and by reflection they would take a good part of the time that
// the search itself does. It is not safe for concurrent use.
type found struct {
	search.Result     // without the hits
	limit         int // of size
	call          *call
	size          int // of all pieces
	pieces        files.Order[[]byte]
	count         int // of pieces: hits of one file, each with a comma before it
}

// take encodes hits. It is a search.Taker.
func (f *found) take(file string, hits []search.Hit) bool {
	begin := append(wire.AppendString([]byte(`,{"file":`), file), `,"line":`...)
	room := 64 // about what the hits need, and some more
	for i := range hits {
		room += len(begin) + len(hits[i].Snippet) + len(hits[i].Snippet)/8 + 64
	}
	piece := make([]byte, 0, room)
	fits := true
	for i := range hits {
		end := len(piece)
		piece = appendHit(append(piece, begin...), &hits[i])
		if f.size+len(piece) > f.limit {
			piece, fits = piece[:end], false
			break
		}
	}
	if len(piece) == 0 {
		return fits
	}
	if !f.call.holds(cap(piece)) {
		return false
	}
	f.pieces.Add(file, piece)
	f.count++
	f.size += len(piece)
	return fits
}

// encoded is the whole result, in pieces between a head and a tail.
func (f *found) encoded(head, tail []byte) [][]byte {
	out := make([][]byte, 0, f.count+2)
	out = append(out, append(head, `{"hits":[`...))
	for piece := range f.pieces.All() {
		if len(out) == 1 {
			piece = piece[1:]
		}
		out = append(out, piece)
	}
	end := strconv.AppendBool([]byte(`],"truncated":`), f.Truncated)
	end = append(wire.AppendString(append(end, `,"engine":`...), string(f.Engine)), '}')
	return append(out, append(end, tail...))
}

// appendHit appends what comes behind the file of a hit.
func appendHit(to []byte, h *search.Hit) []byte {
	to = strconv.AppendInt(to, int64(h.Line), 10)
	to = strconv.AppendInt(append(to, `,"column":`...), int64(h.Column), 10)
	to = wire.AppendString(append(to, `,"snippet":`...), h.Snippet)
	if h.Cut {
		to = append(to, `,"cut":true`...)
	}
	to = appendLines(to, `,"before":[`, h.Before)
	to = appendLines(to, `,"after":[`, h.After)
	return append(to, '}')
}

func appendLines(to []byte, name string, lines []string) []byte {
	if len(lines) == 0 {
		return to
	}
	to = append(to, name...)
	for i, l := range lines {
		if i > 0 {
			to = append(to, ',')
		}
		to = wire.AppendString(to, l)
	}
	return append(to, ']')
}
