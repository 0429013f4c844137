package timeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

// Library is all timelines of a bridge's home: those that are kept, and those of
// the chats of running processes. Its methods may be called concurrently. It
// remembers summaries, so that listing them often is cheap.
type Library struct {
	home string

	mu    sync.Mutex
	known map[string]remembered // by file
}

type remembered struct {
	written time.Time
	size    int64
	sum     Summary
}

// OpenLibrary returns the library of a home.
func OpenLibrary(home string) *Library {
	return &Library{home: home, known: map[string]remembered{}}
}

// Kept is the store of the timelines that are kept.
func (l *Library) Kept() *Store { return Open(Dir(l.home)) }

// shelves returns the stores in use, with the ids of the processes that live.
func (l *Library) shelves() (stores []*Store, alive map[string]bool, err error) {
	processes, err := live.Processes(l.home)
	stores, alive = []*Store{l.Kept()}, map[string]bool{}
	for _, p := range processes {
		alive[p.ID] = true
		stores = append(stores, Open(live.Timelines(l.home, p.ID)))
	}
	return stores, alive, err
}

// List returns the summaries of all sessions, the one that changed last first.
// Their states are what is true now: sessions of a process that has died are
// Interrupted or Ended.
func (l *Library) List() ([]Summary, error) {
	stores, alive, err := l.shelves()
	if err != nil {
		return nil, err
	}
	var out []Summary
	l.mu.Lock()
	defer l.mu.Unlock()
	known := map[string]remembered{}
	for _, s := range stores {
		entries, err := os.ReadDir(s.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if !isSummary(e.Name()) {
				continue
			}
			info, err := e.Info()
			if err != nil {
				continue // removed at this moment
			}
			file := filepath.Join(s.dir, e.Name())
			r, ok := l.known[file]
			if !ok || !r.written.Equal(info.ModTime()) || r.size != info.Size() || time.Since(r.written) < time.Second {
				r = remembered{written: info.ModTime(), size: info.Size()}
				if r.sum, err = readSummary(file); err != nil {
					continue
				}
			}
			known[file] = r
			out = append(out, now(r.sum, alive))
		}
	}
	l.known = known
	slices.SortStableFunc(out, func(a, b Summary) int {
		return cmp.Or(b.Changed.Compare(a.Changed), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// now returns a summary with the state that is true now.
func now(s Summary, alive map[string]bool) Summary {
	if s.State.Live() && !alive[s.Process] {
		if s.State == Idle {
			s.State = Ended
		} else {
			s.State = Interrupted
		}
		s.Questions = 0
	}
	return s
}

// Get returns a session's summary with its true state, and the store that has
// its timeline.
func (l *Library) Get(session string) (Summary, *Store, error) {
	stores, alive, err := l.shelves()
	if err != nil {
		return Summary{}, nil, err
	}
	for _, s := range stores {
		sum, err := readSummary(s.base(session) + summarySuffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return sum, nil, err
		}
		if size, err := s.Size(session); err == nil {
			sum.Size = size
		}
		return now(sum, alive), s, nil
	}
	return Summary{}, nil, unknown(session)
}

// Read is Store.Read, wherever the session's timeline is.
func (l *Library) Read(session string, from int64, limit int) (events []json.RawMessage, next int64, err error) {
	_, s, err := l.Get(session)
	if err != nil {
		return nil, from, err
	}
	return s.Read(session, from, limit)
}

// Before is Store.Before, wherever the session's timeline is.
func (l *Library) Before(session string, before int64, limit int) (events []json.RawMessage, first, next int64, err error) {
	_, s, err := l.Get(session)
	if err != nil {
		return nil, 0, 0, err
	}
	return s.Before(session, before, limit)
}
