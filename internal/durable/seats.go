package durable

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gofrs/flock"
)

// Seats bounds how many processes do something at the same time. A process
// needs one seat, however often it takes it. The system frees the seat of a
// process that dies, however it dies. Its methods may be called concurrently.
type Seats struct {
	dir  string
	most int

	mu    sync.Mutex
	taken int
	held  *flock.Flock // while taken > 0
}

// NewSeats returns the seats that are lock files in a directory.
func NewSeats(dir string, most int) *Seats { return &Seats{dir: dir, most: most} }

// Take takes a seat, without waiting; ok is false if there is none left. The
// caller calls leave once when it is done.
func (s *Seats) Take() (leave func(), ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		if err := s.acquire(); err != nil {
			return nil, false, err
		}
	}
	if s.held == nil {
		return nil, false, nil
	}
	s.taken++
	return s.leave, true, nil
}

// acquire looks for a free seat. The caller holds mu.
func (s *Seats) acquire() error {
	if err := makeDir(s.dir); err != nil {
		return fmt.Errorf("take a seat in %s: %w", s.dir, err)
	}
	for i := range s.most {
		seat := flock.New(filepath.Join(s.dir, strconv.Itoa(i)+".lock"), flock.SetPermissions(0o600))
		free, err := seat.TryLock()
		if err != nil {
			return fmt.Errorf("take a seat in %s: %w", s.dir, err)
		}
		if free {
			s.held = seat
			return nil
		}
	}
	return nil
}

func (s *Seats) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken--; s.taken == 0 {
		_ = s.held.Unlock() // the file stays, and a lock that cannot be given back ends with us
		s.held = nil
	}
}
