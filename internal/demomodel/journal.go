package demomodel

import (
	"crypto/sha256"
	"sync"
)

// journalBytes bounds the bodies that a journal keeps, whatever their number.
const journalBytes = 64 << 20

// journal keeps the last requests, for tests to look at.
type journal struct {
	limit int // 0: keep nothing

	mu       sync.Mutex
	requests []Request
	bytes    int
}

func (j *journal) add(r *Request) {
	if j.limit <= 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests = append(j.requests, *r)
	j.bytes += len(r.Raw)
	drop := 0
	for len(j.requests)-drop > j.limit || (j.bytes > journalBytes && len(j.requests)-drop > 1) {
		j.bytes -= len(j.requests[drop].Raw)
		j.requests[drop] = Request{}
		drop++
	}
	j.requests = j.requests[drop:]
}

func (j *journal) all() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Request(nil), j.requests...)
}

// maxAttempts bounds the requests whose attempts are remembered.
const maxAttempts = 1024

// attempts counts how often the same bytes were asked.
type attempts struct {
	mu    sync.Mutex
	seen  map[[sha256.Size]byte]int
	order [][sha256.Size]byte // oldest first, to forget by
}

// next returns how often this body was counted before.
func (a *attempts) next(body []byte) int {
	key := sha256.Sum256(body)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = make(map[[sha256.Size]byte]int)
	}
	n, known := a.seen[key]
	if !known {
		if len(a.order) == maxAttempts {
			delete(a.seen, a.order[0])
			a.order = append(a.order[:0], a.order[1:]...)
		}
		a.order = append(a.order, key)
	}
	a.seen[key] = n + 1
	return n
}
