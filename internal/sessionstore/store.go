// Package sessionstore keeps the list of sessions that outlives a process:
// sessions.json under the bridge's home directory. Any number of processes
// may use one file at a time, and any of them may be killed at any moment.
//
// It holds what is needed to list and resume sessions, not their contents,
// which are the agents' own, and it judges nothing: the engine decides what to
// store, the sessions command shows it.
package sessionstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

const (
	// lockWait bounds the wait for other processes when the caller's context
	// does not. Each holds the lock for milliseconds.
	lockWait = 30 * time.Second

	// minPrefix is the shortest beginning of an id that Get accepts for it.
	minPrefix = 4

	// maxCandidates bounds the list in an error about an ambiguous id.
	maxCandidates = 10
)

// Store is a session store file. It keeps nothing in memory, so every call
// sees what other processes wrote, and it may be used concurrently. Reading
// takes no lock and never waits.
type Store struct {
	// Hide takes secrets out of what is stored of a session in words: its
	// title, model and directory. nil leaves them as they are.
	Hide func(string) string

	path string
	now  func() time.Time
}

// Open returns the store at path. It does no I/O: a missing or empty file is
// an empty store, and the first write creates it.
func Open(path string) *Store {
	return &Store{path: path, now: time.Now}
}

// Put inserts e, or replaces the entry with its id. A zero Created becomes
// that of the replaced entry, or else the current time; a zero Updated
// becomes the current time. Members of the replaced entry that this version
// does not know stay.
func (s *Store) Put(ctx context.Context, e Entry) error {
	return s.change(ctx, func(doc *document) error {
		i := doc.find(e.ID)
		if i < 0 {
			doc.records = append(doc.records, record{})
			i = len(doc.records) - 1
		}
		old := doc.records[i].entry
		if e.Created.IsZero() {
			e.Created = old.Created
		}
		return s.set(&doc.records[i], old, e)
	})
}

// Update changes the entry with exactly this id. It sets Updated to the
// current time unless f changes it. If f fails, nothing is written and
// Update returns f's error. f runs under the store's lock: it must be quick
// and must not use the store.
func (s *Store) Update(ctx context.Context, id string, f func(*Entry) error) error {
	return s.change(ctx, func(doc *document) error {
		i := doc.find(id)
		if i < 0 {
			return notFound(id)
		}
		old := doc.records[i].entry
		e := old
		if err := f(&e); err != nil {
			return err
		}
		if e.ID != old.ID {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the id of session %s cannot be changed", id)}
		}
		if e.Updated.Equal(old.Updated) {
			e.Updated = time.Time{}
		}
		return s.set(&doc.records[i], old, e)
	})
}

// set makes e the entry of r, in the form in which it will be read back.
func (s *Store) set(r *record, old, e Entry) error {
	now := s.now()
	if e.Created.IsZero() {
		e.Created = now
	}
	if e.Updated.IsZero() {
		e.Updated = now
	}
	e.Created, e.Updated = normal(e.Created), normal(e.Updated)
	if err := check(old, e); err != nil {
		return err
	}
	if s.Hide != nil {
		e.Title, e.Model, e.WorkingDirectory = s.Hide(e.Title), s.Hide(e.Model), s.Hide(e.WorkingDirectory)
	}
	r.entry = e
	return nil
}

// check refuses what a reader could not make sense of. A state or profile
// that the old entry, if there is one, has already is let through: a newer
// writer may know it.
func check(old, e Entry) error {
	isNew := old.ID == ""
	var problem string
	switch {
	case e.ID == "":
		problem = "it has no id"
	case !utf8.ValidString(e.ID):
		problem = "its id is not UTF-8 text"
	case (isNew || e.State != old.State) && !slices.Contains([]State{StateActive, StateIdle, StateFailed, StateClosed}, e.State):
		problem = fmt.Sprintf("its state %q is none of active, idle, failed, closed", e.State)
	case (isNew || e.Profile != old.Profile) && !slices.Contains([]Profile{ProfileChat, ProfileAgent}, e.Profile):
		problem = fmt.Sprintf("its profile %q is neither chat nor agent", e.Profile)
	case !storable(e.Created) || !storable(e.Updated):
		problem = "its times are outside the years 0 to 9999"
	default:
		return nil
	}
	return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("session %q cannot be stored: %s", e.ID, problem)}
}

// Get returns the entry with this id or, if there is none, the only one whose
// id begins with it, given at least four characters.
func (s *Store) Get(ctx context.Context, id string) (Entry, error) {
	entries, err := s.List(ctx)
	if err != nil {
		return Entry{}, err
	}
	var candidates []Entry
	for _, e := range entries {
		if e.ID == id {
			return e, nil
		}
		if strings.HasPrefix(e.ID, id) {
			candidates = append(candidates, e)
		}
	}
	switch {
	case len(candidates) == 0 || utf8.RuneCountInString(id) < minPrefix:
		return Entry{}, notFound(id)
	case len(candidates) == 1:
		return candidates[0], nil
	default:
		return Entry{}, ambiguous(id, candidates)
	}
}

// List returns all entries, the most recently updated first.
func (s *Store) List(ctx context.Context) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read the session store: %w", err)
	}
	doc, err := s.load()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(doc.records))
	for _, r := range doc.records {
		entries = append(entries, r.entry)
	}
	slices.SortFunc(entries, newer)
	return entries, nil
}

// Delete removes the entry with exactly this id.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.change(ctx, func(doc *document) error {
		i := doc.find(id)
		if i < 0 {
			return notFound(id)
		}
		doc.records = slices.Delete(doc.records, i, i+1)
		return nil
	})
}

// Prune removes the entries beyond the keep most recently updated ones, and
// returns them, newest first. Active sessions count but are never removed.
func (s *Store) Prune(ctx context.Context, keep int) (removed []Entry, err error) {
	if keep < 0 {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("cannot keep %d sessions", keep)}
	}
	err = s.change(ctx, func(doc *document) error {
		sorted := slices.Clone(doc.records)
		slices.SortFunc(sorted, func(a, b record) int { return newer(a.entry, b.entry) })
		drop := make(map[string]bool)
		for _, r := range sorted[min(keep, len(sorted)):] {
			if r.entry.State != StateActive {
				drop[r.entry.ID] = true
				removed = append(removed, r.entry)
			}
		}
		if len(removed) == 0 {
			return errUnchanged
		}
		doc.records = slices.DeleteFunc(doc.records, func(r record) bool { return drop[r.entry.ID] })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return removed, nil
}

// errUnchanged is what a change returns to leave the file alone and succeed.
var errUnchanged = errors.New("nothing to write")

// change is the one way to write the file: it applies f to the current
// contents under the lock. If f fails, the file stays as it is.
func (s *Store) change(ctx context.Context, f func(*document) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := durable.Lock(ctx, s.path+".lock")
	if err != nil {
		return err
	}
	defer func() {
		if unlockErr := unlock(); unlockErr != nil {
			err = errors.Join(err, unlockErr)
		}
	}()

	doc, err := s.load()
	if err != nil {
		return err
	}
	if err := f(doc); err != nil {
		if errors.Is(err, errUnchanged) {
			return nil
		}
		return err
	}
	data, err := doc.encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(s.path, data, 0o600)
}

func (s *Store) load() (*document, error) {
	data, err := durable.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return &document{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the session store: %w", err)
	}
	return decode(s.path, data)
}

func notFound(id string) error {
	return &bridge.Error{
		Code:    bridge.CodeNotFound,
		Message: fmt.Sprintf("there is no session %q", id),
		Remedy:  "See `copilot-bridge sessions list` for those there are.",
	}
}

func ambiguous(id string, candidates []Entry) error {
	var ids []string
	for _, e := range candidates[:min(len(candidates), maxCandidates)] {
		ids = append(ids, e.ID)
	}
	if more := len(candidates) - len(ids); more > 0 {
		ids = append(ids, fmt.Sprintf("and %d more", more))
	}
	return &bridge.Error{
		Code:    bridge.CodeInvalid,
		Message: fmt.Sprintf("%q may be any of %d sessions: %s", id, len(candidates), strings.Join(ids, ", ")),
		Remedy:  "Give more characters of the id.",
	}
}
