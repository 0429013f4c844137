// Package sessionstore keeps the list of sessions on disk, under the bridge's
// home, so that later processes can list and resume them. It does not hold
// their contents, which belong to the agents. The engine writes entries, the
// sessions command shows them, and upkeep removes old ones.
package sessionstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
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

// Store is a list of sessions. It keeps nothing in memory, so every call sees
// what other processes wrote, and it may be used concurrently. Reading takes no
// lock and never waits. Any process that uses it may be killed at any moment.
type Store struct {
	// Hide takes secrets out of a session's texts; nil leaves them as they are.
	Hide func(string) string

	// Tell hears, in words for a person, of a file that is damaged or was set
	// aside. It may be nil, and may be called concurrently.
	Tell func(string)

	dir string
	now func() time.Time
}

// Open returns the store in dir. It does no I/O: where there is nothing the
// store is empty, and the first write creates it.
func Open(dir string) *Store {
	return &Store{dir: dir, now: time.Now}
}

// single is the one file of older versions, sessions.json; its entries move
// over with the first change. Their lock is still the lock of the whole store,
// so that old and new programs keep out of each other's way.
func (s *Store) single() string { return s.dir + ".json" }

// fileOf is where the entry with this id is. The list is spread over many small
// files so that a change costs the same however long the list is.
func (s *Store) fileOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	h := hex.EncodeToString(sum[:2])
	return filepath.Join(s.dir, h[:1], h[1:3]+".json")
}

// Put inserts e, or replaces the entry with its id. A zero Created becomes
// that of the replaced entry, or else the current time; a zero Updated
// becomes the current time. Members of the replaced entry that this version
// does not know stay.
func (s *Store) Put(ctx context.Context, e Entry) error {
	return s.change(ctx, e.ID, func(doc *document) error {
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
	return s.change(ctx, id, func(doc *document) error {
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
		for _, text := range []*string{&e.Title, &e.Model, &e.WorkingDirectory, &e.Repository, &e.Branch} {
			*text = s.Hide(*text)
		}
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

// Last is the session that was used last, in place of an id.
const Last = "last"

// Get returns the entry with this id or, if there is none, the only one whose
// id begins with it, given at least four characters, or for Last the one used
// last.
func (s *Store) Get(ctx context.Context, id string) (Entry, error) {
	e, err := s.Find(ctx, id)
	if bridge.CodeOf(err) != bridge.CodeNotFound || utf8.RuneCountInString(id) < minPrefix {
		return e, err
	}
	entries, err := s.List(ctx)
	if err != nil {
		return Entry{}, err
	}
	if id == Last && len(entries) > 0 {
		return entries[0], nil
	}
	candidates := slices.DeleteFunc(entries, func(e Entry) bool { return !strings.HasPrefix(e.ID, id) })
	switch len(candidates) {
	case 0:
		return Entry{}, notFound(id)
	case 1:
		return candidates[0], nil
	default:
		return Entry{}, ambiguous(id, candidates)
	}
}

// Find returns the entry with exactly this id. Unlike Get it reads
// at most two files, however long the list is.
func (s *Store) Find(ctx context.Context, id string) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, fmt.Errorf("read the session store: %w", err)
	}
	// In this order: entries are in the second before they leave the first.
	old, err := s.read(s.single())
	if err != nil {
		return Entry{}, err
	}
	doc, err := s.read(s.fileOf(id))
	if err != nil {
		return Entry{}, err
	}
	i, j := doc.find(id), old.find(id)
	switch {
	case i >= 0 && (j < 0 || !old.records[j].entry.Updated.After(doc.records[i].entry.Updated)):
		return doc.records[i].entry, nil
	case j >= 0:
		return old.records[j].entry, nil
	}
	return Entry{}, notFound(id)
}

// List returns all entries, the most recently updated first.
func (s *Store) List(ctx context.Context) ([]Entry, error) {
	old, err := s.read(s.single()) // first, see Find
	if err != nil {
		return nil, err
	}
	docs, err := s.loadAll(ctx)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(old.records))
	for _, doc := range docs {
		for _, r := range doc.records {
			entries = append(entries, r.entry)
		}
	}
	if len(old.records) > 0 {
		entries = mergeOld(entries, old)
	}
	slices.SortFunc(entries, newer)
	return entries, nil
}

// mergeOld adds the entries of the single file that are in no other, or newer
// there.
func mergeOld(entries []Entry, old *document) []Entry {
	at := make(map[string]int, len(entries))
	for i, e := range entries {
		at[e.ID] = i
	}
	for _, r := range old.records {
		i, known := at[r.entry.ID]
		switch {
		case !known:
			entries = append(entries, r.entry)
		case r.entry.Updated.After(entries[i].Updated):
			entries[i] = r.entry
		}
	}
	return entries
}

// loadAll reads all files, several at a time.
func (s *Store) loadAll(ctx context.Context) ([]*document, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read the session store: %w", err)
	}
	names, err := fs.Glob(os.DirFS(s.dir), "?/??.json")
	if err != nil {
		return nil, err
	}
	docs, errs := make([]*document, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	workers := min(len(names), runtime.GOMAXPROCS(0))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(names) && ctx.Err() == nil; i += workers {
				docs[i], errs[i] = s.read(filepath.Join(s.dir, filepath.FromSlash(names[i])))
			}
		})
	}
	wg.Wait()
	return docs, errors.Join(append(errs, ctx.Err())...)
}

// Delete removes the entry with exactly this id.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.change(ctx, id, func(doc *document) error {
		i := doc.find(id)
		if i < 0 {
			return notFound(id)
		}
		doc.records = slices.Delete(doc.records, i, i+1)
		return nil
	})
}

// DeleteAll removes the entries with exactly these ids, as far as they are
// there. It takes the lock once for each of the files, so that others get
// their turn.
func (s *Store) DeleteAll(ctx context.Context, ids []string) error {
	files := map[string][]string{}
	for _, id := range ids {
		files[s.fileOf(id)] = append(files[s.fileOf(id)], id)
	}
	for _, here := range files {
		err := s.change(ctx, here[0], func(doc *document) error {
			before := len(doc.records)
			doc.records = slices.DeleteFunc(doc.records, func(r record) bool { return slices.Contains(here, r.entry.ID) })
			if len(doc.records) == before {
				return errUnchanged
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// errUnchanged is what a change returns to leave the file alone and succeed.
var errUnchanged = errors.New("nothing to write")

// change is the one way to write: it applies f to the file that has, or will
// have, the entry with this id, under the lock. If f fails, the file stays as
// it is.
func (s *Store) change(ctx context.Context, id string, f func(*document) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := durable.Lock(ctx, s.single()+".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := s.moveOld(); err != nil {
		return err
	}
	return s.changeFile(s.fileOf(id), f)
}

// changeFile applies f to one file. The caller holds the lock.
func (s *Store) changeFile(path string, f func(*document) error) error {
	doc, err := s.loadForChange(path)
	if err != nil {
		return err
	}
	if err := f(doc); err != nil {
		if errors.Is(err, errUnchanged) {
			return nil
		}
		return err
	}
	if len(doc.records) == 0 && len(doc.unknown) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write the session store: %w", err)
		}
		return nil
	}
	data, err := doc.encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(path, data, 0o600)
}

// moveOld spreads the entries of the single file. It is removed last, and
// readers look there first, so a kill half-way loses nothing. An
// older program may write it again, so this is looked after with every change.
// The caller holds the lock.
func (s *Store) moveOld() error {
	if _, err := os.Lstat(s.single()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	old, err := s.loadForChange(s.single())
	if err != nil {
		return err
	}
	files := map[string][]record{}
	for _, r := range old.records {
		files[s.fileOf(r.entry.ID)] = append(files[s.fileOf(r.entry.ID)], r)
	}
	for path, records := range files {
		if err := s.changeFile(path, func(doc *document) error { return doc.adopt(records) }); err != nil {
			return err
		}
	}
	return s.changeFile(s.single(), func(doc *document) error { // removes it, unless it holds what we do not know
		doc.records = nil
		return nil
	})
}

// loadForChange is load for a file that is about to be written. One that has
// lost its contents, as after a crash of the machine, or is damaged is moved
// away, so that it can be restored. The caller holds the lock.
func (s *Store) loadForChange(path string) (*document, error) {
	doc, err := load(path)
	var broken *damage
	what := "empty"
	if errors.As(err, &broken) {
		doc, what = &document{}, "damaged"
	} else if err != nil {
		return nil, err
	} else if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return doc, nil //nolint:nilerr // what else is wrong with it, writing will say
	}
	to := path + s.now().UTC().Format("."+what+"-20060102-150405")
	if err := os.Rename(path, to); err != nil {
		return nil, fmt.Errorf("set the %s session store aside: %w", what, err)
	}
	s.tell("the file %s of the list of sessions was %s, and was set aside as %s; the sessions that were in it are not listed any more", path, what, to)
	return doc, nil
}

// read is load for readers, to whom a damaged file is an empty one.
func (s *Store) read(path string) (*document, error) {
	doc, err := load(path)
	var broken *damage
	if errors.As(err, &broken) {
		s.tell("%s; the sessions in it are not listed. %s", broken.err.Message, broken.err.Remedy)
		return &document{}, nil
	}
	return doc, err
}

func (s *Store) tell(format string, args ...any) {
	if s.Tell != nil {
		s.Tell(fmt.Sprintf(format, args...))
	}
}

func load(path string) (*document, error) {
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &document{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the session store: %w", err)
	}
	return decode(path, data)
}

func notFound(id string) error {
	if id == Last {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no session yet", Remedy: "start one with `copilot-bridge run`"}
	}
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
