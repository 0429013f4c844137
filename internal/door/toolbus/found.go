package toolbus

import (
	"runtime"
	"strconv"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// manyFound is from where on it pays to encode with all processors.
const manyFound = 4096

// appendFound appends the result of a search as JSON, byte for byte as encode
// would. There may be hundreds of thousands of hits, and by reflection they
// would take a good part of the time that the search itself does.
func appendFound(to []byte, r search.Result) []byte {
	to = append(to, `{"hits":[`...)
	to = appendHits(to, r.Hits)
	to = append(to, `],"truncated":`...)
	to = strconv.AppendBool(to, r.Truncated)
	to = append(to, `,"engine":`...)
	return append(wire.AppendString(to, string(r.Engine)), '}')
}

// appendHits encodes the hits in parts, one for each processor, and puts them
// together. Room is made for what is usual, so that little is moved.
func appendHits(to []byte, hits []search.Hit) []byte {
	workers := 1
	if len(hits) >= manyFound {
		workers = runtime.GOMAXPROCS(0)
	}
	parts := make([][]byte, workers)
	var running sync.WaitGroup
	for i := range workers {
		some := hits[len(hits)*i/workers : len(hits)*(i+1)/workers]
		running.Go(func() {
			var into []byte
			if i > 0 {
				into = make([]byte, 0, room(some))
			} else { // the others come behind it
				into = append(make([]byte, 0, len(to)+room(hits)), to...)
			}
			file, begin := "", []byte(nil) // hits of one file begin alike
			for k := range some {
				if i > 0 || k > 0 {
					into = append(into, ',')
				}
				if h := &some[k]; begin == nil || h.File != file {
					file = h.File
					begin = append(wire.AppendString(append(begin[:0], `{"file":`...), file), `,"line":`...)
				}
				into = appendHit(append(into, begin...), &some[k])
			}
			parts[i] = into
		})
	}
	running.Wait()
	out := parts[0]
	for _, p := range parts[1:] {
		out = append(out, p...)
	}
	return out
}

// room is about what hits need, and some more.
func room(hits []search.Hit) int {
	n := 64
	for i := range hits {
		n += len(hits[i].File) + len(hits[i].Snippet) + len(hits[i].Snippet)/16 + 56
	}
	return n
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
